# Writes the files of the page as constants of C++ (launcher/page/page.h): page.html becomes page_html_template, and so on.
set(text "#include \"launcher/page/page.h\"\n\nnamespace dlaunch::launcher {\n\n")
foreach(file IN ITEMS page.html page.css page.js)
  file(READ ${FOLDER}/${file} content)
  string(REPLACE "." "_" name ${file})
  string(APPEND text "const std::string_view embedded_${name} = R\"dlaunch(${content})dlaunch\";\n\n")
endforeach()
file(WRITE ${OUTPUT} "${text}}  // namespace dlaunch::launcher\n")
