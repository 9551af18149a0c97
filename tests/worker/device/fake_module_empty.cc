// A library that is no GPU module.
extern "C" int rondo_nothing(void) { return 0; }
