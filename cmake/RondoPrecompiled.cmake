# Precompiled headers (RONDO_PCH): most files of this project are short, and reading Abseil's, gtest's or gRPC's headers
# is nine tenths of compiling them. Presets that people rebuild all day leave it off, so that compiler caches work.
#
# rondo_precompile(TARGET test|plain): gives TARGET the set that suits what it links.
if(RONDO_PCH)
  set(pch_plain <algorithm> <cmath> <cstdint> <functional> <map> <memory> <mutex> <optional> <string> <string_view> <vector>
      <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/time/clock.h> <absl/types/span.h>)
  set(pch_empty ${CMAKE_BINARY_DIR}/pch_empty.cc)
  file(GENERATE OUTPUT ${pch_empty} CONTENT "// Only to hold precompiled headers.\n")

  function(rondo_pch_set name)
    cmake_parse_arguments(ARG "" "" "HEADERS;DEPS" ${ARGN})
    add_library(${name} OBJECT ${pch_empty})
    target_link_libraries(${name} PUBLIC rondo_options ${ARG_DEPS})
    target_precompile_headers(${name} PRIVATE ${pch_plain} ${ARG_HEADERS})
  endfunction()

  rondo_pch_set(rondo_pch_plain DEPS absl::statusor absl::strings absl::time absl::span)
  rondo_pch_set(rondo_pch_rpc DEPS rondo_proto absl::statusor absl::strings absl::time absl::span
    HEADERS <grpcpp/grpcpp.h> <rondo/v1/inference.grpc.pb.h> <rondo/v1/group.grpc.pb.h>)
  if(RONDO_TESTS)
    rondo_pch_set(rondo_pch_test DEPS GTest::gtest GTest::gmock absl::statusor absl::strings absl::time absl::span
      HEADERS <gtest/gtest.h> <gmock/gmock.h>)
    target_compile_options(rondo_pch_test PRIVATE ${RONDO_TEST_OPTIMISATION})
  endif()
endif()

function(rondo_precompile target kind)
  # Kernels are compiled for their own instruction sets, and see nothing of these headers in their hot files.
  if(NOT RONDO_PCH OR CMAKE_CURRENT_SOURCE_DIR MATCHES "^${CMAKE_SOURCE_DIR}/(kernels|base)(/|$)")
    return()
  endif()
  get_target_property(deps ${target} LINK_LIBRARIES)
  if(kind STREQUAL "test")
    target_precompile_headers(${target} REUSE_FROM rondo_pch_test)
  elseif("rondo_proto" IN_LIST deps)
    target_precompile_headers(${target} REUSE_FROM rondo_pch_rpc)
  else()
    target_precompile_headers(${target} REUSE_FROM rondo_pch_plain)
  endif()
endfunction()
