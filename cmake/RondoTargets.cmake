# rondo_library(NAME SOURCES... DEPS targets...), rondo_program, rondo_test: one CMake target a folder, and it
# links only what the include-layering rule allows (tools/check_layers.py reads the same rule from the includes).

# -ffp-contract=off: a fused multiply-add happens where the code says fma and nowhere else, or the bits would
# depend on the compiler's mood (docs/ALGORITHMS.md).
add_library(rondo_options INTERFACE)
# -pthread: MPI asks for it, and precompiled headers want the same flags everywhere.
target_compile_options(rondo_options INTERFACE
  $<BUILD_INTERFACE:-Wall> $<BUILD_INTERFACE:-Wextra> $<BUILD_INTERFACE:-ffp-contract=off>
  $<BUILD_INTERFACE:-fno-math-errno> -pthread)
if(RONDO_WERROR)
  target_compile_options(rondo_options INTERFACE $<BUILD_INTERFACE:-Werror>)
endif()
target_include_directories(rondo_options INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
if(RONDO_SANITIZE)
  target_compile_options(rondo_options INTERFACE -fsanitize=${RONDO_SANITIZE} -fno-omit-frame-pointer -g1)
  target_link_options(rondo_options INTERFACE -fsanitize=${RONDO_SANITIZE})
endif()

function(rondo_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC rondo_options ${ARG_DEPS})
  rondo_precompile(${name} plain)
endfunction()

function(rondo_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE rondo_options ${ARG_DEPS})
  rondo_precompile(${name} plain)
endfunction()

# What a test spends its time in is in the libraries; under sanitizers compiling it is what takes long.
set(RONDO_TEST_OPTIMISATION -O1)
if(RONDO_SANITIZE)
  set(RONDO_TEST_OPTIMISATION -O0)
endif()

# A GoogleTest program, registered with ctest as one test. LABELS: fast (default) or slow.
function(rondo_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE rondo_options ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  # g++ 12 sees overlapping and oversized copies in inlined std::string code that cannot happen (GCC bugs 105651,
  # 105329).
  target_compile_options(${name} PRIVATE ${RONDO_TEST_OPTIMISATION} -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow)
  rondo_precompile(${name} test)
  target_compile_definitions(${name} PRIVATE RONDO_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77)
  if(ARG_LABELS)
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}")
  endif()
endfunction()
