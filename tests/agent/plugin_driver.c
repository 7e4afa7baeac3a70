// SPDX-License-Identifier: Apache-2.0
// Loads spank_vetta.so as slurmstepd does, with a Slurm made of this file, and says what it did.
//   plugin_driver PLUGIN TASKS FIRST_PID [OPTION...] [-- NAME=VALUE...]
// The options are plugstack.conf's, NAME=VALUE the job's environment; PROBE=... is the user's
// --probe, CONTEXT=local or allocator makes this srun or sbatch. Prints lines: "init N", "env
// NAME=VALUE" for what user_init set, "post_fork NS" and "exit NS" for all tasks together, and
// return codes that are not 0 as "failed NAME N".
#define _GNU_SOURCE
#include <dlfcn.h>
#include <slurm/spank.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { names_max = 64 };

static char* names[names_max];
static int name_count;
static uint32_t task;
static pid_t first_pid;
static struct spank_option option;
static int has_option;

static int find(const char* name) {
  const size_t size = strlen(name);
  for (int i = 0; i < name_count; ++i)
    if (strncmp(names[i], name, size) == 0 && names[i][size] == '=') return i;
  return -1;
}

void slurm_info(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("info ");
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
}

void slurm_error(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("error ");
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
}

spank_err_t spank_option_register(spank_t sp, struct spank_option* opt) {
  (void)sp;
  option = *opt;
  has_option = 1;
  return ESPANK_SUCCESS;
}

spank_context_t spank_context(void) {
  const int at = find("CONTEXT");
  if (at < 0) return S_CTX_REMOTE;
  return strcmp(names[at], "CONTEXT=local") == 0 ? S_CTX_LOCAL : S_CTX_ALLOCATOR;
}

int spank_remote(spank_t sp) {
  (void)sp;
  return 1;
}

spank_err_t spank_job_control_setenv(spank_t sp, const char* name, const char* value, int over) {
  (void)sp;
  (void)name;
  (void)value;
  (void)over;
  return ESPANK_SUCCESS;
}

spank_err_t spank_getenv(spank_t sp, const char* name, char* out, int size) {
  (void)sp;
  const int at = find(name);
  if (at < 0) return ESPANK_ENV_NOEXIST;
  const int n = snprintf(out, (size_t)size, "%s", strchr(names[at], '=') + 1);
  return n < size ? ESPANK_SUCCESS : ESPANK_NOSPACE;
}

spank_err_t spank_setenv(spank_t sp, const char* name, const char* value, int over) {
  (void)sp;
  const int at = find(name);
  if (at >= 0 && over == 0) return ESPANK_ENV_EXISTS;
  char* entry = NULL;
  if (asprintf(&entry, "%s=%s", name, value) < 0) abort();
  if (at < 0 && name_count == names_max) abort();
  names[at < 0 ? name_count++ : at] = entry;
  printf("env %s\n", entry);
  return ESPANK_SUCCESS;
}

spank_err_t spank_get_item(spank_t sp, spank_item_t item, ...) {
  (void)sp;
  va_list arguments;
  va_start(arguments, item);
  void* out = va_arg(arguments, void*);
  va_end(arguments);
  switch (item) {
    case S_JOB_ID: *(uint32_t*)out = 4711; break;
    case S_JOB_STEPID: *(uint32_t*)out = 3; break;
    case S_JOB_UID: *(uid_t*)out = getuid(); break;
    case S_JOB_TOTAL_TASK_COUNT: *(uint32_t*)out = 64; break;
    case S_SLURM_RESTART_COUNT: *(uint32_t*)out = 2; break;
    case S_TASK_ID: *(int*)out = (int)task; break;
    case S_TASK_GLOBAL_ID: *(uint32_t*)out = task; break;
    case S_TASK_PID: *(pid_t*)out = first_pid == 0 ? getpid() : first_pid + (pid_t)task; break;
    case S_TASK_EXIT_STATUS: *(int*)out = 256; break;
    default: return ESPANK_BAD_ARG;
  }
  return ESPANK_SUCCESS;
}

static long long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int call(void* plugin, const char* name, int ac, char** av) {
  spank_f* function = (spank_f*)dlsym(plugin, name);
  if (function == NULL) return 0;
  const int rc = function(NULL, ac, av);
  if (rc != ESPANK_SUCCESS) printf("failed %s %d\n", name, rc);
  return rc;
}

static long long call_for_all(void* plugin, const char* name, uint32_t tasks) {
  const long long begin = now_ns();
  for (task = 0; task < tasks; ++task) call(plugin, name, 0, NULL);
  return now_ns() - begin;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  void* plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (plugin == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const uint32_t tasks = (uint32_t)atoi(argv[2]);
  first_pid = atoi(argv[3]);
  int options = 0;
  while (4 + options < argc && strcmp(argv[4 + options], "--") != 0) ++options;
  for (int i = 5 + options; i < argc && name_count < names_max; ++i) names[name_count++] = argv[i];
  printf("init %d\n", call(plugin, "slurm_spank_init", options, argv + 4));
  const int probe = find("PROBE");
  if (probe >= 0 && has_option) {
    const char* value = strchr(names[probe], '=') + 1;
    printf("option %d\n", option.cb(option.val, value[0] == '\0' ? NULL : value, 1));
  }
  call(plugin, "slurm_spank_init_post_opt", options, argv + 4);
  call(plugin, "slurm_spank_user_init", options, argv + 4);
  printf("post_fork %lld\n", call_for_all(plugin, "slurm_spank_task_post_fork", tasks));
  fflush(stdout);
  printf("exit %lld\n", call_for_all(plugin, "slurm_spank_task_exit", tasks));
  return 0;
}
