# The house's own taste: arrows, banned calls, public headers, dead files.
add_test(NAME house.taste COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/house/taste.py ${PROJECT_SOURCE_DIR})
set_tests_properties(house.taste PROPERTIES TIMEOUT 60 LABELS "unsanitized")
