# Writes a C file with the bytes of the page's files, their types and their ETags.
#
#   cmake -DOUT=web_files.c -DFILES="web/index.html;web/app.js" -P tools/embed.cmake
#
# Lines of scripts that are comments only are left out: browsers need not load them. So no such line may be inside a
# template literal.
#
# The ETag is a hash of the content, so it changes when the content does and never otherwise.
set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")

set(arrays "")
set(rows "")
set(number 0)
foreach(path IN LISTS FILES)
    get_filename_component(name ${path} NAME)
    get_filename_component(extension ${path} LAST_EXT)
    string(SUBSTRING ${extension} 1 -1 extension)
    if(NOT DEFINED type_${extension})
        message(FATAL_ERROR "${path}: what is the media type of .${extension}?")
    endif()
    file(READ ${path} content)
    if(extension STREQUAL "js")
        string(REGEX REPLACE "\n[ \t]*//[^\n]*" "" content "\n${content}")
        string(SUBSTRING "${content}" 1 -1 content)
    endif()
    string(HEX "${content}" hex)
    string(SHA256 hash "${content}")
    string(SUBSTRING ${hash} 0 16 tag)
    string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
    set(url "/${name}")
    if(name STREQUAL "index.html")
        set(url "/")
    endif()
    string(APPEND arrays "static const unsigned char file_${number}[] = {\n${hex}};\n\n")
    string(APPEND rows "    {\"${url}\", \"${type_${extension}}\", \"\\\"${tag}\\\"\", "
        "file_${number}, sizeof file_${number}},\n")
    math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUT} "/* Made by tools/embed.cmake from web/; not to be edited. */
#include \"server/web.h\"

${arrays}const struct web_file web_files[] = {
${rows}};
const unsigned web_file_count = sizeof web_files / sizeof web_files[0];
")
