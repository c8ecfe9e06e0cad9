# The page: TypeScript and CSS bundled by esbuild, with libraries of the system, embedded as a header.
set(STRATA_PAGE_DIR ${CMAKE_CURRENT_LIST_DIR})
set(STRATA_PAGE_OUT ${CMAKE_BINARY_DIR}/generated/server)
set(STRATA_PAGE_HEADER ${STRATA_PAGE_OUT}/page_data.h)

find_program(STRATA_ESBUILD esbuild)
find_file(STRATA_MARKED marked/marked.umd.js PATHS /usr/share/javascript /usr/local/share/javascript NO_DEFAULT_PATH)
find_path(STRATA_NODE_MODULES NAMES dompurify/package.json PATHS /usr/share/nodejs /usr/local/share/nodejs NO_DEFAULT_PATH)
find_path(STRATA_HIGHLIGHT NAMES highlight.js/lib/highlight.js PATHS ${STRATA_NODE_MODULES} NO_DEFAULT_PATH)
foreach(need IN ITEMS "STRATA_ESBUILD|esbuild" "STRATA_MARKED|libjs-marked" "STRATA_NODE_MODULES|node-dompurify" "STRATA_HIGHLIGHT|node-highlight.js")
  string(REPLACE "|" ";" need "${need}")
  list(GET need 0 variable)
  list(GET need 1 package)
  if(NOT ${variable})
    message(FATAL_ERROR "The web page is built with ${package}, which is not installed. On Debian: apt-get install esbuild libjs-marked node-dompurify node-highlight.js (scripts/install-dependencies does it), "
      "or set ${variable}.")
  endif()
endforeach()

set(page_sources api.ts charts.ts chat.ts conversation.ts dom.ts format.ts highlight.ts main.ts markdown.ts message_view.ts
  monitor.ts settings.ts settings_dialog.ts shortcuts.ts sidebar.ts status.ts store.ts)
list(TRANSFORM page_sources PREPEND ${STRATA_PAGE_DIR}/src/)
set(page_styles base.css chat.css frame.css monitor.css style.css)
list(TRANSFORM page_styles PREPEND ${STRATA_PAGE_DIR}/style/)

add_custom_command(
  OUTPUT ${STRATA_PAGE_OUT}/app.js
  COMMAND ${CMAKE_COMMAND} -E env NODE_PATH=${STRATA_NODE_MODULES}
          ${STRATA_ESBUILD} ${STRATA_PAGE_DIR}/src/main.ts --bundle --minify --charset=utf8 --target=es2021 --log-level=warning
          --tsconfig=${STRATA_PAGE_DIR}/tsconfig.json --legal-comments=eof --alias:marked=${STRATA_MARKED} --outfile=${STRATA_PAGE_OUT}/app.js
  DEPENDS ${page_sources} ${STRATA_PAGE_DIR}/tsconfig.json ${STRATA_MARKED}
  COMMENT "Bundling the page's script"
  VERBATIM
)
add_custom_command(
  OUTPUT ${STRATA_PAGE_OUT}/style.css
  COMMAND ${STRATA_ESBUILD} ${STRATA_PAGE_DIR}/style/style.css --bundle --minify --charset=utf8 --log-level=warning --outfile=${STRATA_PAGE_OUT}/style.css
  DEPENDS ${page_styles}
  COMMENT "Bundling the page's styles"
  VERBATIM
)
add_custom_command(
  OUTPUT ${STRATA_PAGE_HEADER}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${STRATA_PAGE_HEADER}
          "-DFILES=kIndexHtml=${STRATA_PAGE_DIR}/index.html|kAppJs=${STRATA_PAGE_OUT}/app.js|kStyleCss=${STRATA_PAGE_OUT}/style.css|kIconSvg=${STRATA_PAGE_DIR}/icon.svg"
          -P ${STRATA_PAGE_DIR}/embed.cmake
  DEPENDS ${STRATA_PAGE_DIR}/index.html ${STRATA_PAGE_DIR}/icon.svg ${STRATA_PAGE_OUT}/app.js ${STRATA_PAGE_OUT}/style.css
          ${STRATA_PAGE_DIR}/embed.cmake
  COMMENT "Embedding the page"
  VERBATIM
)
