// A library by a name under which the loader will not find it.
extern "C" int rondo_never_called(void) { return 0; }
