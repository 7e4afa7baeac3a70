// SPDX-License-Identifier: Apache-2.0
// The rank plugin: tells the node's vetta-agent which processes are ranks, and hands the probe's
// socket to them (docs/internals/agent-protocol.md, section 1). It never fails, delays or prints
// into a job: every entry returns success, sends do not wait, and an absent, stopped or full agent
// costs microseconds; the agent then finds the ranks in /proc by itself.
//
// plugstack.conf:
//   optional spank_vetta.so rundir=/run/vetta python_dir=/usr/lib/vetta/python probe=option
//     rundir=DIR      where the agents' sockets lie (default /run/vetta)
//     python_dir=DIR  holds vetta_probe and its injector; needed for --probe
//     probe=option    --probe switches the injector on (the default); on: for every job that does
//                     not say --probe=off; off: never
// No threads, no heap, no state but what the options say.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <slurm/spank.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

SPANK_PLUGIN(vetta, 1)

enum { path_max = 256, message_max = 1024 };

// Slurm's special steps, as slurm.h of every release has them.
#define STEP_BATCH 0xfffffffbU
#define STEP_EXTERN 0xfffffffcU
#define STEP_INTERACTIVE 0xfffffffaU

enum probe_setting { probe_unset, probe_off, probe_on };

static char rundir[path_max] = "/run/vetta";
static char python_dir[path_max] = "";
static char own_node[path_max] = "";
static enum probe_setting site_probe = probe_unset;
static enum probe_setting job_probe = probe_unset;

static int probe_option(int value, const char* argument, int remote) {
  (void)value;
  // Inside a job of `#SBATCH --probe`, Slurm 22.05 hands srun the text "(null)" for "no argument".
  if (argument == NULL || strcmp(argument, "on") == 0 || strcmp(argument, "(null)") == 0) {
    job_probe = probe_on;
  } else if (strcmp(argument, "off") == 0) {
    job_probe = probe_off;
  } else if (remote == 0) {
    slurm_error("vetta: --probe=%s is not known, write --probe, --probe=on or --probe=off",
                argument);
    return ESPANK_BAD_ARG;
  }
  return ESPANK_SUCCESS;
}

static struct spank_option probe_option_entry = {
    (char*)"probe",
    (char*)"on|off",
    (char*)"mark the steps of PyTorch training without a change to its code; "
           "`vetta why JOB` then tells where its time goes",
    2,  // the argument is optional
    0,
    probe_option,
};

static void take_setting(const char* word) {
  if (strncmp(word, "rundir=", 7) == 0) {
    snprintf(rundir, sizeof rundir, "%s", word + 7);
  } else if (strncmp(word, "python_dir=", 11) == 0) {
    snprintf(python_dir, sizeof python_dir, "%s", word + 11);
  } else if (strcmp(word, "probe=on") == 0) {
    site_probe = probe_on;
  } else if (strcmp(word, "probe=off") == 0) {
    site_probe = probe_off;
  } else if (strcmp(word, "probe=option") != 0) {
    slurm_error(
        "vetta: plugstack.conf: '%s' is not known and ignored; known are rundir=, "
        "python_dir=, probe=on|off|option",
        word);
  }
}

int slurm_spank_init(spank_t sp, int ac, char** av) {
  for (int i = 0; i < ac; ++i) take_setting(av[i]);
  const char* node = getenv("SLURMD_NODENAME");
  if (spank_remote(sp) == 1 && node != NULL) snprintf(own_node, sizeof own_node, "%s", node);
  if (site_probe != probe_off) spank_option_register(sp, &probe_option_entry);
  return ESPANK_SUCCESS;
}

// A --probe that cannot be is told to the user who asks. sbatch and salloc: the steps inside shall
// know, too, also with --export=NONE. Slurm puts this into the job's environment as
// SLURM_SPANK_VETTA_PROBE.
int slurm_spank_init_post_opt(spank_t sp, int ac, char** av) {
  (void)ac;
  (void)av;
  const spank_context_t context = spank_context();
  if (job_probe == probe_on && python_dir[0] == '\0' &&
      (context == S_CTX_LOCAL || context == S_CTX_ALLOCATOR))
    slurm_info(
        "vetta: --probe marks no steps: plugstack.conf names no python_dir= for spank_vetta.so "
        "(the folder that holds vetta_probe); the job goes on without");
  if (context != S_CTX_ALLOCATOR || job_probe == probe_unset) return ESPANK_SUCCESS;
  spank_job_control_setenv(sp, "VETTA_PROBE", job_probe == probe_on ? "on" : "off", 1);
  return ESPANK_SUCCESS;
}

/// The node's name as Slurm calls it: several slurmd can share a host.
static bool node_name(spank_t sp, char* out, size_t size) {
  // slurmstepd's own environment, taken at the start: the job's can carry the name of the node on
  // which its batch script runs, and slurmstepd's title later overwrites its environment.
  if (own_node[0] != '\0') {
    snprintf(out, size, "%s", own_node);
    return true;
  }
  if (spank_getenv(sp, "SLURMD_NODENAME", out, (int)size) == ESPANK_SUCCESS && out[0] != '\0')
    return true;
  if (gethostname(out, size - 1) != 0) return false;
  out[size - 1] = '\0';
  char* dot = strchr(out, '.');
  if (dot != NULL) *dot = '\0';
  return true;
}

static bool wants_probe(spank_t sp) {
  enum probe_setting setting = job_probe;
  if (setting == probe_unset) {
    char value[8];
    if (spank_getenv(sp, "SLURM_SPANK_VETTA_PROBE", value, sizeof value) == ESPANK_SUCCESS)
      setting = strcmp(value, "on") == 0 ? probe_on : probe_off;
  }
  if (setting == probe_unset) setting = site_probe;
  return setting == probe_on && site_probe != probe_off && python_dir[0] != '\0';
}

static void put_injector_first(spank_t sp) {
  static char old[16384];
  static char ours[2 * path_max + 32];
  static char path[sizeof old + sizeof ours];
  snprintf(ours, sizeof ours, "%s/vetta_probe/inject:%s", python_dir, python_dir);
  if (spank_getenv(sp, "PYTHONPATH", old, sizeof old) != ESPANK_SUCCESS) old[0] = '\0';
  if (strncmp(old, ours, strlen(ours)) == 0) return;  // a step inside a job that has it already
  snprintf(path, sizeof path, "%s%s%s", ours, old[0] != '\0' ? ":" : "", old);
  spank_setenv(sp, "PYTHONPATH", path, 1);
}

int slurm_spank_user_init(spank_t sp, int ac, char** av) {
  (void)ac;
  (void)av;
  char node[path_max];
  char socket_path[2 * path_max + 16];
  if (!node_name(sp, node, sizeof node)) return ESPANK_SUCCESS;
  snprintf(socket_path, sizeof socket_path, "%s/%s/probe.sock", rundir, node);
  spank_setenv(sp, "VETTA_SOCKET", socket_path, 1);
  char off[4];
  // The user's own VETTA_PROBE=0 undoes everything.
  if (spank_getenv(sp, "VETTA_PROBE", off, sizeof off) == ESPANK_SUCCESS && strcmp(off, "0") == 0)
    return ESPANK_SUCCESS;
  if (wants_probe(sp)) {
    spank_setenv(sp, "VETTA_PROBE", "1", 1);
    put_injector_first(sp);
  }
  return ESPANK_SUCCESS;
}

// ---- registration

struct message {
  char text[message_max];
  size_t size;
};

__attribute__((format(printf, 2, 3))) static void add(struct message* m, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int n = vsnprintf(m->text + m->size, sizeof m->text - m->size, format, arguments);
  va_end(arguments);
  // A line that does not fit is left out whole.
  if (n > 0 && (size_t)n < sizeof m->text - m->size) m->size += (size_t)n;
}

static unsigned long long start_ticks(pid_t pid) {
  char path[64];
  char stat[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t n = read(fd, stat, sizeof stat - 1);
  close(fd);
  if (n <= 0) return 0;
  stat[n] = '\0';
  const char* field = strrchr(stat, ')');  // the name may hold blanks and brackets
  for (int i = 2; field != NULL && i < 22; ++i) field = strchr(field + 1, ' ');
  return field != NULL ? strtoull(field + 1, NULL, 10) : 0;
}

static void add_step(struct message* m, uint32_t step) {
  if (step == STEP_BATCH)
    add(m, "step=batch\n");
  else if (step == STEP_INTERACTIVE)
    add(m, "step=interactive\n");
  else
    add(m, "step=%u\n", step);
}

static void add_environment(struct message* m, spank_t sp) {
  char value[128];
  if (spank_getenv(sp, "SLURM_HET_JOB_OFFSET", value, sizeof value) == ESPANK_SUCCESS ||
      spank_getenv(sp, "SLURM_PACK_JOB_OFFSET", value, sizeof value) == ESPANK_SUCCESS)
    add(m, "het_offset=%s\n", value);
  if (spank_getenv(sp, "SLURM_STEP_GPUS", value, sizeof value) == ESPANK_SUCCESS ||
      spank_getenv(sp, "SLURM_JOB_GPUS", value, sizeof value) == ESPANK_SUCCESS)
    if (strchr(value, '\n') == NULL) add(m, "devices=%s\n", value);
}

/// False for the extern step, whose one task is a placeholder.
static bool describe_task(struct message* m, spank_t sp, const char* kind) {
  uint32_t job = 0;
  uint32_t step = 0;
  uint32_t task = 0;
  uint32_t tasks = 0;
  uint32_t restart = 0;
  int local_task = 0;
  uid_t uid = 0;
  pid_t pid = 0;
  if (spank_get_item(sp, S_JOB_ID, &job) != ESPANK_SUCCESS ||
      spank_get_item(sp, S_JOB_STEPID, &step) != ESPANK_SUCCESS || step == STEP_EXTERN ||
      spank_get_item(sp, S_TASK_PID, &pid) != ESPANK_SUCCESS)
    return false;
  spank_get_item(sp, S_TASK_GLOBAL_ID, &task);
  spank_get_item(sp, S_TASK_ID, &local_task);
  spank_get_item(sp, S_JOB_TOTAL_TASK_COUNT, &tasks);
  spank_get_item(sp, S_SLURM_RESTART_COUNT, &restart);
  spank_get_item(sp, S_JOB_UID, &uid);
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  add(m, "vetta=1\nkind=%s\njob=%u\n", kind, job);
  add_step(m, step);
  add(m, "restart=%u\ntask=%u\nlocal_task=%d\ntasks=%u\nuid=%u\npid=%d\n", restart, task,
      local_task, tasks, (unsigned)uid, (int)pid);
  if (strcmp(kind, "start") == 0) add(m, "start_ticks=%llu\n", start_ticks(pid));
  add(m, "time_ns=%lld\n", (long long)now.tv_sec * 1000000000LL + now.tv_nsec);
  return true;
}

/// The way to the agent, kept for all tasks of the step, so that 64 tasks cost one look-up.
static int agent_fd = -1;
static struct stat agent_socket;
static bool is_agent_absent = false;
static struct timespec absent_since;

static void connect_to_agent(spank_t sp) {
  char node[path_max];
  struct sockaddr_un address;
  memset(&address, 0, sizeof address);
  address.sun_family = AF_UNIX;
  if (!node_name(sp, node, sizeof node)) return;
  const int n =
      snprintf(address.sun_path, sizeof address.sun_path, "%s/%s/agent.sock", rundir, node);
  if (n < 0 || (size_t)n >= sizeof address.sun_path) return;
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  if (connect(fd, (struct sockaddr*)&address, sizeof address) == 0 && fstat(fd, &agent_socket) == 0)
    agent_fd = fd;
  else
    close(fd);
}

/// Somebody in this process may have closed the descriptor and opened another file by its number:
/// then it is not ours to use, nor to close.
static void check_agent_fd(void) {
  struct stat now;
  if (agent_fd >= 0 && (fstat(agent_fd, &now) != 0 || now.st_ino != agent_socket.st_ino ||
                        now.st_dev != agent_socket.st_dev))
    agent_fd = -1;
}

static void drop_agent(void) {
  check_agent_fd();
  if (agent_fd >= 0) close(agent_fd);
  agent_fd = -1;
}

/// Can the agent take a message now? Asked before one is written: an agent that is absent, stopped
/// or full costs a microsecond a task, and finds the ranks in /proc by itself. An absent one is
/// looked for again after a second.
static bool can_send(spank_t sp) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  check_agent_fd();
  if (agent_fd < 0) {
    if (is_agent_absent && now.tv_sec - absent_since.tv_sec < 2) return false;
    connect_to_agent(sp);
    is_agent_absent = agent_fd < 0;
    absent_since = now;
    if (is_agent_absent) return false;
  }
  struct pollfd poll_fd = {agent_fd, POLLOUT, 0};
  return poll(&poll_fd, 1, 0) == 1;
}

static void send_to_agent(spank_t sp, const struct message* m) {
  if (send(agent_fd, m->text, m->size, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 || errno == EAGAIN) return;
  drop_agent();  // it was started anew since the first task
  connect_to_agent(sp);
  if (agent_fd >= 0) (void)!send(agent_fd, m->text, m->size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int slurm_spank_task_post_fork(spank_t sp, int ac, char** av) {
  (void)ac;
  (void)av;
  struct message m = {.size = 0};
  if (can_send(sp) && describe_task(&m, sp, "start")) {
    add_environment(&m, sp);
    send_to_agent(sp, &m);
  }
  return ESPANK_SUCCESS;
}

int slurm_spank_task_exit(spank_t sp, int ac, char** av) {
  (void)ac;
  (void)av;
  struct message m = {.size = 0};
  int status = 0;
  if (can_send(sp) && describe_task(&m, sp, "exit") &&
      spank_get_item(sp, S_TASK_EXIT_STATUS, &status) == ESPANK_SUCCESS) {
    add(&m, "status=%d\n", status);
    send_to_agent(sp, &m);
  }
  return ESPANK_SUCCESS;
}

int slurm_spank_exit(spank_t sp, int ac, char** av) {
  (void)sp;
  (void)ac;
  (void)av;
  drop_agent();
  return ESPANK_SUCCESS;
}
