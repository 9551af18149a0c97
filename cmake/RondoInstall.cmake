# `cmake --install build/release --prefix P`: programs, and the library (attention kernels and the ring) as a CMake package:
#
#   find_package(rondo REQUIRED)
#   target_link_libraries(mine PRIVATE rondo::ring rondo::kernels rondo::mpi)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(rondo_library_targets rondo_options rondo_base rondo_cpu_attention rondo_cpu_dense rondo_ref_kernels rondo_kernels
    rondo_kv rondo_fold rondo_plan rondo_ring rondo_pair_transport rondo_loopback rondo_mpi_launch)
if(RONDO_MPI)
  list(APPEND rondo_library_targets rondo_mpi)
endif()
foreach(target IN LISTS rondo_library_targets)
  string(REGEX REPLACE "^rondo_" "" short ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${short})
endforeach()

install(TARGETS ${rondo_library_targets} EXPORT rondoTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/rondo)
install(DIRECTORY include/rondo DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT rondoTargets NAMESPACE rondo:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rondo)
configure_package_config_file(cmake/rondoConfig.cmake.in ${CMAKE_BINARY_DIR}/rondoConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rondo)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/rondoConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/rondoConfig.cmake ${CMAKE_BINARY_DIR}/rondoConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rondo)

foreach(program rondo rondo-worker rondo-coordinator)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
