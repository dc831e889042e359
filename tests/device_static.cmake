# device_static.cmake - included by tests/build_device.sh: libraries are linked statically, for a machine that has none of
# ours. Criterion is not needed there and stays as it is.
set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
set(CMAKE_EXE_LINKER_FLAGS "${CMAKE_EXE_LINKER_FLAGS} -static-libgcc -static-libstdc++ -Wl,--as-needed -Wl,-rpath,'$ORIGIN'")
