# The house's own taste: arrows, banned calls, public headers, dead files; a test file for each unit; manual pages that
# say what there is.
add_test(NAME house.taste COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/house/taste.py ${PROJECT_SOURCE_DIR})
add_test(NAME house.units COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/house/units.py ${PROJECT_SOURCE_DIR})
add_test(NAME house.man_pages COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/house/man_pages.py ${PROJECT_SOURCE_DIR})
add_test(NAME house.support_table COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/house/support_table.py ${PROJECT_SOURCE_DIR})
add_test(NAME house.functions COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/house/functions_test.py)
set_tests_properties(house.functions house.support_table house.taste house.units house.man_pages PROPERTIES TIMEOUT 60 LABELS "unsanitized")
