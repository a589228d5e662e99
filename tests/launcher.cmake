dlaunch_test(NAME launcher_test LABELS unit LIBS dlaunch_launcher
  SOURCES launcher/binding_test.cpp launcher/dry_run_test.cpp launcher/flags_test.cpp launcher/host_list_test.cpp
          launcher/job_table_test.cpp launcher/options_test.cpp launcher/plan_test.cpp launcher/report_test.cpp launcher/scheduler_test.cpp
          launcher/store_options_test.cpp)
target_compile_definitions(launcher_test PRIVATE DLAUNCH_VERSION="${PROJECT_VERSION}")

# dlaunch itself, with real processes.
dlaunch_script_tests(NAME launch SCRIPT process/launch_test.py BASE Launch)
dlaunch_script_tests(NAME store_verb SCRIPT process/store_test.py BASE StoreVerb)
dlaunch_script_tests(NAME verbs SCRIPT process/verbs_test.py BASE Verbs)
dlaunch_script_tests(NAME output SCRIPT process/output_test.py BASE Output)
dlaunch_script_tests(NAME failure SCRIPT process/failure_test.py BASE Failure)
dlaunch_script_tests(NAME cleanliness SCRIPT process/cleanliness_test.py BASE Cleanliness)
dlaunch_script_tests(NAME odd_start SCRIPT process/odd_start_test.py BASE OddStart)
dlaunch_script_tests(NAME terminal SCRIPT process/terminal_test.py BASE Terminal)
