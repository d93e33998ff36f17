// A plugin of qemu that prints the number of instructions that a program executed. It declares the
// parts of qemu's interface, version 1, that it uses, because Debian's qemu-user lacks the header.

#include <stdint.h>
#include <stdio.h>

struct qemu_plugin_tb;
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t, void (*)(uint64_t, struct qemu_plugin_tb*));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb*, int, void*, uint64_t);
void qemu_plugin_register_atexit_cb(uint64_t, void (*)(uint64_t, void*), void*);
uint64_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb*);

int qemu_plugin_version = 1;
static uint64_t executed;

static void translated(uint64_t id, struct qemu_plugin_tb* block) {
  const int add = 0;
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_inline(block, add, &executed, qemu_plugin_tb_n_insns(block));
}

static void ended(uint64_t id, void* none) {
  (void)id;
  (void)none;
  fprintf(stderr, "%llu\n", (unsigned long long)executed);
}

int qemu_plugin_install(uint64_t id, const void* info, int count, char** arguments) {
  (void)info;
  (void)count;
  (void)arguments;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, ended, 0);
  return 0;
}
