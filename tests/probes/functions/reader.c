/* Prints what the library's functions return and its constants hold, once for each line read. */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(int count, char **arguments) {
  void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW) : NULL;
  char line[80];
  if (!library) return 1;
  unsigned long (*constants)(void) = dlsym(library, "constants");
  unsigned (*whole)(void) = dlsym(library, "whole"), (*shifted)(void) = dlsym(library, "shifted");
  const volatile unsigned long *table = dlsym(library, "table");
  printf("%d\n", getpid());
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    printf("%lx %x %x %lx\n", constants(), whole(), shifted(), *table);
    fflush(stdout);
  }
  return 0;
}
