# Finds nvcc for the CUDA kernels. Afterwards RONDO_CUDA_FOUND says whether they are built; without nvcc they are left out,
# and everything else, their tests on the emulator included, is built as ever.
set(RONDO_CUDA AUTO CACHE STRING "Build the CUDA kernels: AUTO (where nvcc is found), ON or OFF")
set_property(CACHE RONDO_CUDA PROPERTY STRINGS AUTO ON OFF)

set(RONDO_CUDA_FOUND FALSE)
if(NOT RONDO_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  # nvcc is often installed beside the PATH. CUDACXX, which CMake reads itself, goes first.
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(RONDO_NVCC nvcc HINTS /usr/local/cuda/bin)
    if(RONDO_NVCC)
      set(ENV{CUDACXX} ${RONDO_NVCC})
    endif()
  endif()
  # The kernels' own folder says for which GPUs; this keeps CMake from choosing.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES OFF)
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    # CMake 3.25 believes that nvcc knows nothing newer than C++17.
    foreach(kind STANDARD EXTENSION)
      if(NOT CMAKE_CUDA20_${kind}_COMPILE_OPTION)
        set(CMAKE_CUDA20_${kind}_COMPILE_OPTION -std=c++20)
      endif()
    endforeach()
    set(RONDO_CUDA_FOUND TRUE)
    message(STATUS "CUDA kernels: nvcc ${CMAKE_CUDA_COMPILER_VERSION} at ${CMAKE_CUDA_COMPILER}")
  elseif(RONDO_CUDA STREQUAL "ON")
    message(FATAL_ERROR "RONDO_CUDA is ON and no nvcc was found: set CUDACXX or CMAKE_CUDA_COMPILER to it, or RONDO_CUDA to OFF")
  else()
    message(STATUS "CUDA kernels: left out, no nvcc found")
  endif()
endif()

# rondo_cuda_kernels(NAME SOURCES...): a static library for every GPU we name, position-independent, for the GPU module.
# tools/check_ptxas reads what ptxas says of each kernel and fails the build on spilled registers and on serialised wgmma.
function(rondo_cuda_kernels name)
  # The last one is PTX, for GPUs that are yet to come.
  rondo_cuda_library(${name} "80:sm_80;90a:sm_90a;100a:sm_100a;90:compute_90" ${ARGN})
endfunction()

# The same for kernels written for Hopper's own instructions, which no other GPU has.
function(rondo_cuda_hopper_kernels name)
  rondo_cuda_library(${name} "90a:sm_90a" ${ARGN})
endfunction()

function(rondo_cuda_library name gpus)
  set(gencode "")
  foreach(gpu ${gpus})
    string(REPLACE ":" ";" gpu ${gpu})
    list(GET gpu 0 from)
    list(GET gpu 1 to)
    list(APPEND gencode -gencode=arch=compute_${from},code=${to})
  endforeach()
  add_library(${name} STATIC ${ARGN})
  target_include_directories(${name} PRIVATE
    ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/kernels/cuda/device/ptx)
  # No contraction: arithmetic is what is written, so that kernels that share it agree to the last bit.
  target_compile_options(${name} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false --expt-relaxed-constexpr -Xptxas=-v ${gencode}>)
  set_target_properties(${name} PROPERTIES
    CUDA_ARCHITECTURES OFF
    CUDA_STANDARD 20
    CUDA_COMPILER_LAUNCHER ${CMAKE_SOURCE_DIR}/tools/check_ptxas
    POSITION_INDEPENDENT_CODE ON)
endfunction()
