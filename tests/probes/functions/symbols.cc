#include <string>
#include <vector>
#define PROBED extern "C" __attribute__((visibility("default")))
PROBED int ncclAllReduce(int a) { return a + 1; }
PROBED int pncclAllReduce(int) __attribute__((alias("ncclAllReduce")));
PROBED int ncclAllGather(int a) { return a + 2; }
PROBED int ncclSend(int a) { return a + 3; }
extern "C" int nccl_table[4] = {1};
namespace comm {
struct Reducer {
  int finalize(int times);
  int finalize(const std::vector<int> &all) const;
  int prepare(std::string name);
};
int Reducer::finalize(int times) { return times * 2; }
int Reducer::finalize(const std::vector<int> &all) const { return static_cast<int>(all.size()); }
int Reducer::prepare(std::string name) { return static_cast<int>(name.size()); }
}  // namespace comm
int plain(int a) { return a - 1; }
static int one(int a) { return a; }
static int two(int a) { return -a; }
extern "C" int (*resolve_chosen())(int) { return nccl_table[0] ? one : two; }
extern "C" int chosen(int) __attribute__((ifunc("resolve_chosen")));
extern "C" int puts(const char *);
PROBED int sw_speak() { puts("x"); return 1; }
