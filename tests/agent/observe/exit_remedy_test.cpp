#include "agent/observe/exit_remedy.h"

#include <gtest/gtest.h>

#include <csignal>

#include "tests/agent/observe/exited.h"

namespace dlaunch::agent {
namespace {

constexpr std::uint64_t MiB = 1ULL << 20;

constexpr ExitStatus killed(int signo, bool core_dumped = false) {
  return {ExitStatus::How::signaled, signo, core_dumped};
}

// A program of the user's on host b, whose core dumps are off.
ExitFacts facts() {
  ExitFacts facts;
  facts.host = "b";
  facts.command = {"./train", "--lr=1"};
  facts.folder = "/srv/job";
  facts.pid = 4711;
  facts.core = {0, std::nullopt};
  facts.core_pattern = "core";
  return facts;
}

ExitFacts python() {
  ExitFacts facts;
  facts.host = "b";
  facts.command = {"/usr/bin/python3", "-u", "train.py"};
  return facts;
}

TEST(ExitRemedy, APlainExitCodeHasNone) {
  EXPECT_EQ(remedy_of_exit(exited(3), "loss is NaN", facts()), "");
  EXPECT_EQ(remedy_of_exit(killed(SIGTERM), "", facts()), "");
  EXPECT_EQ(remedy_of_exit(exited(127), "", facts()), "");
  EXPECT_EQ(remedy_of_exit(exited(126), "", facts()), "");
}

TEST(ExitRemedy, WithoutMemoryTheRanksAreComparedWithTheLimit) {
  ExitFacts known = facts();
  known.out_of_memory = OutOfMemory{400 * MiB, {{1, 390 * MiB, true}, {0, 12 * MiB, false}}};
  EXPECT_EQ(
      remedy_of_exit(killed(SIGKILL), "", known),
      "raise the memory limit of 400 MiB, or start fewer ranks on host b (--nproc-per-node): rank 1 held "
      "up to 390 MiB, rank 0 holds 12 MiB");
  known.out_of_memory->ranks.pop_back();
  EXPECT_EQ(remedy_of_exit(killed(SIGKILL), "", known),
            "raise the memory limit of 400 MiB, or let the program use less: rank 1 held up to 390 MiB");
  known.out_of_memory = OutOfMemory{};
  EXPECT_EQ(remedy_of_exit(exited(137), "", known),
            "use a machine with more memory than host b, or let the program use less");
  known.out_of_memory = OutOfMemory{MiB, std::vector<MemoryOfRank>(100, {5, MiB, false})};
  EXPECT_LT(remedy_of_exit(killed(SIGKILL), "", known).size(), 300U);
}

TEST(ExitRemedy, ACrashWithoutACoreDumpNamesTheLimitThatKeptTheKernelFromIt) {
  EXPECT_EQ(remedy_of_exit(killed(SIGSEGV), "", facts()),
            "'ulimit -c unlimited' before dlaunch (it is 0 on host b), then gdb -batch -ex bt ./train "
            "/srv/job/core");
  EXPECT_EQ(remedy_of_exit(exited(139), "", facts()), remedy_of_exit(killed(SIGSEGV), "", facts()));
  ExitFacts known = facts();
  known.core_pattern = "/cores/%e.%p.%t";
  EXPECT_TRUE(remedy_of_exit(killed(SIGABRT), "", known).ends_with(" ./train /cores/train.*.*"));
}

TEST(ExitRemedy, ACrashThatMayNotDumpCoreIsSeenWithADebugger) {
  ExitFacts known = facts();
  known.core.hard = 0;
  EXPECT_EQ(remedy_of_exit(killed(SIGFPE), "", known),
            "allow core dumps on host b (ulimit -Hc is 0: /etc/security/limits.conf, LimitCORE= of systemd, "
            "docker --ulimit core=-1), or install gdb there");
  known.has_gdb = true;
  EXPECT_EQ(
      remedy_of_exit(killed(SIGFPE), "", known),
      "dlaunch ... gdb -batch -ex run -ex bt --args ./train ... prints the stack when it happens again");
  known = facts();
  known.core_pattern = "|/usr/share/apport/apport %p";
  EXPECT_EQ(remedy_of_exit(killed(SIGSEGV), "", known), "") << "core dumps are on, and none was written";
}

TEST(ExitRemedy, ACoreDumpIsOpenedWhereItLies) {
  ExitFacts known = facts();
  EXPECT_EQ(remedy_of_exit(killed(SIGSEGV, true), "", known),
            "gdb -batch -ex bt ./train /srv/job/core on host b");
  known.core_uses_pid = true;
  EXPECT_EQ(remedy_of_exit(killed(SIGSEGV, true), "", known),
            "gdb -batch -ex bt ./train /srv/job/core.4711 on host b");
  known.core_pattern = "|/usr/lib/systemd/systemd-coredump %P %u";
  EXPECT_EQ(remedy_of_exit(killed(SIGSEGV, true), "", known), "coredumpctl gdb 4711 on host b");
  known.core_pattern = "|/usr/share/apport/apport %p";
  EXPECT_EQ(remedy_of_exit(killed(SIGSEGV, true), "", known),
            "open the core dump with gdb on host b; the kernel has passed it to /usr/share/apport/apport");
  known.core_pattern = "";
  known.folder = "";
  EXPECT_EQ(remedy_of_exit(killed(SIGSEGV, true), "", known), "open the core dump with gdb on host b");
}

TEST(ExitRemedy, ACrashOfPythonIsSeenWithItsOwnHandler) {
  EXPECT_EQ(remedy_of_exit(killed(SIGSEGV), "", python()),
            "dlaunch --export=PYTHONFAULTHANDLER=1 ... prints the Python stack when it happens again");
  EXPECT_EQ(remedy_of_exit(killed(SIGABRT), "Fatal Python error: Aborted\n\nCurrent thread ...", python()),
            "")
      << "it is switched on";
}

TEST(ExitRemedy, SignalsWithACauseOfTheirOwn) {
  ExitFacts known = facts();
  known.shared_memory_full = true;
  EXPECT_TRUE(remedy_of_exit(killed(SIGBUS), "", known).starts_with("free space in /dev/shm on host b"));
  known.shared_memory_full = false;
  EXPECT_TRUE(remedy_of_exit(killed(SIGBUS), "", known).starts_with("'ulimit -c unlimited'"));
  EXPECT_TRUE(
      remedy_of_exit(killed(SIGILL), "", known).starts_with("build the program for the processor of host b"));
  known.was_killed_by_another = true;
  EXPECT_EQ(
      remedy_of_exit(killed(SIGKILL), "", known),
      "dmesg, journalctl and the log of the scheduler or container runtime on host b may name who killed "
      "it");
}

TEST(ExitRemedy, AMissingLibraryIsLookedForOrFound) {
  const char* const linker =
      "./train: error while loading shared libraries: libx.so.1: cannot open shared object file: No such "
      "file";
  EXPECT_EQ(remedy_of_exit(exited(127), linker, facts()),
            "ldd ./train on host b lists what is missing; add the folder of libx.so.1 to LD_LIBRARY_PATH, or "
            "link the program with -Wl,-rpath");
  ExitFacts known = facts();
  known.library_folder = "/opt/x/lib";
  EXPECT_EQ(remedy_of_exit(exited(127), linker, known),
            "dlaunch --export=LD_LIBRARY_PATH=/opt/x/lib ... (libx.so.1 is there on host b)");
  EXPECT_EQ(remedy_of_exit(exited(1), linker, known), "") << "the program has handled it";
}

TEST(ExitRemedy, AMissingCommandOfAShellIsNamed) {
  EXPECT_EQ(remedy_of_exit(exited(127), "start\nsh: 1: nonsense: not found", facts()),
            "install nonsense on host b, or give its full path");
  EXPECT_EQ(remedy_of_exit(exited(127), "bash: line 1: nonsense: command not found", facts()),
            "install nonsense on host b, or give its full path");
  EXPECT_EQ(remedy_of_exit(exited(126), "sh: 1: ./step.sh: Permission denied", facts()),
            "chmod +x ./step.sh on host b; check that its file system is not mounted noexec");
}

TEST(ExitRemedy, LimitsAreNamedWithTheirValues) {
  ExitFacts known = facts();
  known.address_space = {400 * MiB, 400 * MiB};
  known.file_size = {10 * 1024, std::nullopt};
  known.cpu_seconds = {60, std::nullopt};
  known.most_open_files = 4096;
  EXPECT_EQ(remedy_of_exit(killed(SIGABRT), "  what():  std::bad_alloc", known),
            "raise ulimit -v on host b: it is 400 MiB, as is the hard limit, which only root may raise");
  EXPECT_EQ(remedy_of_exit(killed(SIGXFSZ), "", known), "raise ulimit -f on host b: it is 10 KiB");
  EXPECT_EQ(remedy_of_exit(exited(152), "", known), "raise ulimit -t on host b: it is 60 s");
  EXPECT_EQ(remedy_of_exit(exited(1), "open: Too many open files", known),
            "raise ulimit -n on host b before dlaunch starts; its hard limit is 4096");
  known.task_limit = "pids.max is 12 in cgroup /job";
  EXPECT_EQ(remedy_of_exit(exited(1), "", known),
            "raise the limit on processes on host b (pids.max is 12 in cgroup /job), or start fewer "
            "processes and threads");
  known = facts();
  EXPECT_EQ(remedy_of_exit(killed(SIGXFSZ), "", known), "") << "there is no limit here";
  EXPECT_TRUE(remedy_of_exit(killed(SIGABRT), "std::bad_alloc", known).starts_with("'ulimit -c unlimited'"));
}

TEST(ExitRemedy, AFullDiskIsNamed) {
  ExitFacts known = facts();
  EXPECT_EQ(remedy_of_exit(exited(1), "write: No space left on device", known),
            "df -h and df -i on host b show which file system is full");
  known.full_file_systems = {"the file system of /tmp (50 GiB)"};
  EXPECT_EQ(remedy_of_exit(exited(1), "write: No space left on device", known),
            "free space on host b in the file system of /tmp (50 GiB)");
}

TEST(ExitRemedy, AFileThatIsNotThereIsNamedWithTheFolderThatIs) {
  ExitFacts known = facts();
  const auto remedy = [&] { return remedy_of_exit(exited(1), "cannot read it", known); };
  EXPECT_EQ(remedy(), "");
  const std::string begin = "correct the path, or copy or mount the file on host b: it has ";
  known.missing_path = "/data/mnist/train";
  known.existing_folder = "/data";
  EXPECT_EQ(remedy(), begin + "/data, but no /data/mnist");
  known.existing_folder = "/";
  EXPECT_EQ(remedy(), begin + "/, but no /data");
  known.existing_folder = "/data/mnist";
  EXPECT_EQ(remedy(), begin + "/data/mnist, but no /data/mnist/train");
}

TEST(ExitRemedy, OnlyADebuggerShowsWhereASilentProgramExits) {
  ExitFacts known = facts();
  known.is_compiled = true;
  known.has_gdb = true;
  const auto remedy = [&](int code, const char* words) { return remedy_of_exit(exited(code), words, known); };
  EXPECT_TRUE(
      remedy(3, "").starts_with("it wrote nothing; dlaunch ... gdb -batch -ex 'catch syscall exit_group' "));
  EXPECT_EQ(remedy(3, "loss is NaN"), "");
  known.is_compiled = false;
  EXPECT_EQ(remedy(3, ""), "") << "a script";
}

TEST(ExitRemedy, AMissingModuleOfPythonIsNamedWithTheInterpreter) {
  const char* const words = "ModuleNotFoundError: No module named 'torch.nn'";
  EXPECT_EQ(
      remedy_of_exit(exited(1), words, python()),
      "install the package of torch for /usr/bin/python3 on host b, or start dlaunch in the environment "
      "that has it");
  EXPECT_TRUE(remedy_of_exit(exited(1), "No module named 'numpy'\nmore.", python())
                  .starts_with("install the package of numpy for "));
  EXPECT_EQ(remedy_of_exit(exited(1), words, facts()), "") << "its interpreter is not known";
  EXPECT_EQ(remedy_of_exit(exited(1), "No module named 'torch", python()), "");
}

TEST(ExitRemedy, WordsOfTheWorkerAreMadeSafe) {
  const std::string remedy =
      remedy_of_exit(exited(127), "sh: 1: \x1b[2J" + std::string(1000, 'x') + ": not found", facts());
  EXPECT_EQ(remedy.find('\x1b'), std::string::npos);
  EXPECT_LE(remedy.size(), 500U);
}

}  // namespace
}  // namespace dlaunch::agent
