// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <span>
#include <string>

#include "diagnose/message_detail.h"

namespace vetta::diagnose {
namespace {

using model::Answer;

struct Pattern {
  std::string_view text;  // lower case, found anywhere in the message
  Meaning meaning;
};

constexpr std::string_view look_first = "look at the rank that failed first; this one only noticed";

constexpr Meaning collective_timeout{Answer::cannot_tell, true,
                                     "a collective timed out waiting for other ranks", look_first};
constexpr Meaning in_vain{Answer::cannot_tell, true, "it waited in vain for other ranks",
                          look_first};
constexpr Meaning gpu_memory{
    Answer::code, false, "the GPU's memory is full",
    "use a smaller batch, gradient accumulation or checkpointing, or a GPU with more memory"};
constexpr Meaning no_gpu{
    Answer::machine, false, "the rank saw no GPU",
    "check --gpus of the job; if it asked for some, tell the operators the node's name"};
constexpr Meaning host_memory{Answer::code, false, "it asked for more memory than it may have",
                              "ask for more with --mem, or use fewer loader workers"};
constexpr Meaning damaged{Answer::data, false, "a file is damaged or of another format",
                          "check the file: was its writing cut short?"};

// Order matters: what is a consequence first, then the narrow before the broad.

// Consequences: others ended, or somebody sent a signal.
constexpr std::array consequences{
    Pattern{"connection closed by peer",
            {Answer::cannot_tell, true, "the connection to another rank broke", look_first}},
    Pattern{"connection reset by peer",
            {Answer::cannot_tell, true, "the connection to another rank broke", look_first}},
    Pattern{
        "broken pipe",
        {Answer::cannot_tell, true, "the other end of a pipe or connection is gone", look_first}},
    Pattern{"remote process exited",
            {Answer::cannot_tell, true, "NCCL lost another rank", look_first}},
    Pattern{"ncclremoteerror", {Answer::cannot_tell, true, "NCCL lost another rank", look_first}},
    Pattern{"watchdog caught collective operation timeout", collective_timeout},
    Pattern{"collective operation timeout", collective_timeout},
    Pattern{"some nccl operations have failed or timed out", collective_timeout},
    Pattern{"nccl timeout", collective_timeout},
    Pattern{"timed out waiting", in_vain},
    Pattern{"wait timeout", in_vain},
    Pattern{"socket timeout", in_vain},
    Pattern{"heartbeat timeout",
            {Answer::cannot_tell, true, "it heard nothing of another rank", look_first}},
    Pattern{"connectfullmesh",
            {Answer::cannot_tell, true, "gloo did not reach all ranks", look_first}},
    Pattern{"diststoreerror", {Answer::cannot_tell, true, "the ranks' store is gone", look_first}},
    Pattern{"distnetworkerror",
            {Answer::cannot_tell, true, "the ranks' store cannot be reached", look_first}},
    Pattern{"connection refused",
            {Answer::cannot_tell, true, "nobody listened at the other end", look_first}},
    Pattern{"childfailederror",
            {Answer::cannot_tell, true, "torchrun saw one of its workers fail", look_first}},
    Pattern{"signalexception", {Answer::cannot_tell, true, "it was told to end", look_first}},
    Pattern{"keyboardinterrupt", {Answer::cannot_tell, true, "it was interrupted", look_first}},
    Pattern{"mpi_abort", {Answer::cannot_tell, true, "MPI ended it with another rank", look_first}},
};

// The GPU: memory is the code's matter, hardware is the machine's.
constexpr std::array gpus{
    Pattern{"cuda out of memory", gpu_memory},
    Pattern{"hip out of memory", gpu_memory},
    Pattern{"outofmemoryerror", gpu_memory},
    Pattern{"device-side assert",
            {Answer::code, false,
             "a check inside a GPU kernel failed, often an index or label out of range",
             "run once with CUDA_LAUNCH_BLOCKING=1 to see the line"}},
    Pattern{
        "illegal memory access",
        {Answer::code, false, "a GPU kernel touched memory that is not its own",
         "run once with CUDA_LAUNCH_BLOCKING=1; if it comes on one node only, tell the operators"}},
    Pattern{"uncorrectable",
            {Answer::machine, false, "a GPU reported an uncorrectable memory error",
             "tell the operators the node's name; submit again with --exclude"}},
    Pattern{"fallen off the bus",
            {Answer::machine, false, "a GPU is gone from its node",
             "tell the operators the node's name; submit again with --exclude"}},
    Pattern{"no cuda-capable device", no_gpu},
    Pattern{"no cuda gpus are available", no_gpu},
    Pattern{"busy or unavailable",
            {Answer::machine, false, "the GPU is taken by another process or broken",
             "tell the operators the node's name; submit again with --exclude"}},
    Pattern{"driver/library version mismatch",
            {Answer::machine, false, "the node's GPU driver was changed under it",
             "tell the operators the node's name"}},
    Pattern{"cuda unknown error",
            {Answer::machine, false, "the GPU does not answer",
             "tell the operators the node's name; submit again with --exclude"}},
    Pattern{"unspecified launch failure",
            {Answer::cannot_tell, false, "a GPU kernel died",
             "run once with CUDA_LAUNCH_BLOCKING=1; if it comes on one "
             "node only, tell the operators"}},
};

// Storage.
constexpr std::array storage{
    Pattern{"no space left on device",
            {Answer::data, false, "the disk it writes to is full",
             "free space there, or write somewhere else; df -h and quota show what is left"}},
    Pattern{"[errno 28]",
            {Answer::data, false, "the disk it writes to is full",
             "free space there, or write somewhere else; df -h and quota show what is left"}},
    Pattern{"disk quota exceeded",
            {Answer::data, false, "its owner's disk quota is used up",
             "delete what is not needed, or ask for a larger quota"}},
    Pattern{"file too large", {Answer::data, false, "a file grew over its limit", "see ulimit -f"}},
    Pattern{"out of shared memory",
            {Answer::code, false, "the loader's workers ran out of shared memory",
             "use fewer workers or a smaller batch, or "
             "torch.multiprocessing.set_sharing_strategy('file_system')"}},
    Pattern{"read-only file system",
            {Answer::machine, false, "the file system is mounted read-only",
             "write elsewhere, and tell the operators the node's name and the path"}},
    Pattern{"input/output error",
            {Answer::machine, false, "reading or writing a file failed in the hardware or network",
             "tell the operators the node's name and the path"}},
    Pattern{"stale file handle",
            {Answer::machine, false, "the file server forgot an open file",
             "submit again; if it comes back, tell the operators the path"}},
    Pattern{"transport endpoint",
            {Answer::machine, false, "a network file system is gone from the node",
             "tell the operators the node's name and the path"}},
};

// The node's memory and limits.
constexpr std::array limits{
    Pattern{"cannot allocate memory", host_memory},
    Pattern{"memoryerror", host_memory},
    Pattern{"bad_alloc", host_memory},
    Pattern{"is killed by signal: killed",
            {Answer::code, false, "a loader worker was killed, most often for memory",
             "ask for more memory with --mem, or use fewer loader workers"}},
    Pattern{"too many open files",
            {Answer::code, false, "it has too many files open",
             "raise ulimit -n, or torch.multiprocessing.set_sharing_strategy('file_system')"}},
    Pattern{"address already in use",
            {Answer::code, false, "the port for the ranks' meeting is taken",
             "derive MASTER_PORT from SLURM_JOB_ID"}},
};

// Data.
constexpr std::array data_files{
    Pattern{"filenotfounderror",
            {Answer::data, false, "a file is not there", "check the path as seen on that node"}},
    Pattern{"no such file or directory",
            {Answer::data, false, "a file is not there", "check the path as seen on that node"}},
    Pattern{"permissionerror",
            {Answer::data, false, "a file may not be read or written",
             "check owner and mode of the path"}},
    Pattern{"permission denied",
            {Answer::data, false, "a file may not be read or written",
             "check owner and mode of the path"}},
    Pattern{"unpicklingerror", damaged},
    Pattern{"badzipfile", damaged},
    Pattern{"pytorchstreamreader",
            {Answer::data, false, "a checkpoint is damaged or cut short",
             "take the checkpoint before it; write to a temporary name and rename"}},
    Pattern{"unidentifiedimageerror",
            {Answer::data, false, "a picture cannot be read", "check the file"}},
    Pattern{"image file is truncated",
            {Answer::data, false, "a picture is cut short", "check the file"}},
    Pattern{
        "truncated",
        {Answer::data, false, "a file is cut short", "check the file: was its writing cut short?"}},
    Pattern{
        "corrupt",
        {Answer::data, false, "a file is damaged", "check the file: was its writing cut short?"}},
    Pattern{"unicodedecodeerror",
            {Answer::data, false, "a text file is not in the expected encoding", "check the file"}},
    Pattern{"jsondecodeerror",
            {Answer::data, false, "a JSON file cannot be read", "check the file"}},
    Pattern{"eoferror",
            {Answer::data, false, "a file ends too early",
             "check the file: was its writing cut short?"}},
};

// The environment and the numbers.
constexpr std::array environment{
    Pattern{"modulenotfounderror",
            {Answer::code, false, "a Python module is missing",
             "activate the environment in the job script, or install the module in it"}},
    Pattern{"importerror",
            {Answer::code, false, "a Python module does not load",
             "check the environment: versions that do not fit each other, or a missing library"}},
    Pattern{"exec format error",
            {Answer::code, false,
             "a program is for another kind of machine, or a script without "
             "its first line",
             "check the program with file(1)"}},
    Pattern{"floatingpointerror",
            {Answer::code, false, "a number left its range", "look at the loss before that step"}},
    Pattern{"loss is nan",
            {Answer::code, false, "the loss is not a number",
             "lower the learning rate, clip gradients, look at the batch"}},
    Pattern{"nan loss",
            {Answer::code, false, "the loss is not a number",
             "lower the learning rate, clip gradients, look at the batch"}},
    Pattern{
        "ncclunhandledcudaerror",
        {Answer::cannot_tell, false, "NCCL met an error of CUDA", "run once with NCCL_DEBUG=WARN"}},
    Pattern{"ncclsystemerror",
            {Answer::cannot_tell, false, "NCCL met an error of the system or the network",
             "run once with NCCL_DEBUG=WARN"}},
    Pattern{"nccl error",
            {Answer::cannot_tell, false, "NCCL failed", "run once with NCCL_DEBUG=WARN"}},
};

constexpr std::array<std::span<const Pattern>, 6> pattern_groups{
    std::span<const Pattern>(consequences), std::span<const Pattern>(gpus),
    std::span<const Pattern>(storage),      std::span<const Pattern>(limits),
    std::span<const Pattern>(data_files),   std::span<const Pattern>(environment)};

constexpr Meaning own_exception{Answer::code, false, "an exception that nobody caught",
                                "read the traceback"};

std::string lower(std::string_view text) {
  constexpr std::size_t longest = 4096;
  std::string copy(text.substr(0, longest));
  for (char& c : copy) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return copy;
}

}  // namespace

const Meaning& meaning_of(std::string_view message) {
  const std::string text = lower(message);
  for (const std::span<const Pattern> group : pattern_groups) {
    for (const Pattern& pattern : group) {
      if (text.find(pattern.text) != std::string::npos) return pattern.meaning;
    }
  }
  return own_exception;
}

std::string_view path_in(std::string_view message) {
  for (const char quote : {'\'', '"'}) {
    for (std::size_t from = message.find(quote); from != std::string_view::npos;) {
      const std::size_t to = message.find(quote, from + 1);
      if (to == std::string_view::npos) break;
      const std::string_view inside = message.substr(from + 1, to - from - 1);
      if (inside.find('/') != std::string_view::npos && inside.size() <= 4096) return inside;
      from = to;
    }
  }
  return {};
}

std::string place_in(std::string_view traceback) {
  constexpr std::string_view file = "File \"";
  constexpr std::string_view line = "\", line ";
  const std::size_t from = traceback.rfind(file);
  if (from == std::string_view::npos) return {};
  const std::size_t name = from + file.size();
  const std::size_t end = traceback.find(line, name);
  if (end == std::string_view::npos) return {};
  std::string place(traceback.substr(name, end - name));
  place += ':';
  for (std::size_t i = end + line.size();
       i < traceback.size() && traceback[i] >= '0' && traceback[i] <= '9'; ++i) {
    place += traceback[i];
  }
  return place;
}

std::string signal_text(int number) {
  switch (number) {
    case 1: return "SIGHUP";
    case 2: return "SIGINT";
    case 3: return "SIGQUIT";
    case 4: return "SIGILL";
    case 6: return "SIGABRT";
    case 7: return "SIGBUS";
    case 8: return "SIGFPE";
    case 9: return "SIGKILL";
    case 10: return "SIGUSR1";
    case 11: return "SIGSEGV";
    case 12: return "SIGUSR2";
    case 13: return "SIGPIPE";
    case 14: return "SIGALRM";
    case 15: return "SIGTERM";
    case 24: return "SIGXCPU";
    case 25: return "SIGXFSZ";
    default: return fmt::format("signal {}", number);
  }
}

std::optional<int> signal_of_exit(int exit_code) {
  if (exit_code <= 128 || exit_code > 128 + 64) return std::nullopt;
  return exit_code - 128;
}

namespace {

struct ReasonRow {
  std::string_view reason;  // prefix of Slurm's word
  PendingReason meaning;
};

constexpr std::array reasons_of_jobs{
    ReasonRow{"Resources",
              {"enough nodes of the kind that it asked for are not free now",
               "ask for less, for another "
               "partition or a shorter time"}},
    ReasonRow{
        "Priority",
        {"jobs of higher priority stand before it", "a shorter time limit lets it slip into gaps"}},
    ReasonRow{"DependencyNeverSatisfied",
              {"it waits for a job that ended otherwise than the dependency asks",
               "cancel it, or change it with scontrol "
               "update JobId=… Dependency=",
               true}},
    ReasonRow{"Dependency", {"it waits for another job", "see the dependency in vetta job show"}},
    ReasonRow{"BeginTime",
              {"it was submitted with --begin, and that time has not come",
               "scontrol update JobId=… StartTime=now starts it earlier"}},
    ReasonRow{"JobHeldUser", {"its owner holds it", "scontrol release JobId", true}},
    ReasonRow{"JobHeldAdmin", {"an operator holds it", "ask the operators", true}},
    ReasonRow{
        "JobHoldMaxRequeue",
        {"it was requeued too often and is held", "see why its earlier attempts ended", true}},
    ReasonRow{"launch failed requeued held",
              {"its start failed on the node, and Slurm holds it",
               "tell the operators, then scontrol release JobId", true}},
    ReasonRow{"launch_failed_requeued_held",
              {"its start failed on the node, and Slurm holds it",
               "tell the operators, then scontrol release JobId", true}},
    ReasonRow{"ReqNodeNotAvail",
              {"a node that it needs is down, drained or reserved for a maintenance",
               "a time limit that ends before the maintenance lets it start; vetta node list"}},
    ReasonRow{"Nodes_required_for_job_are_DOWN",
              {"the nodes that it needs are down, drained or reserved",
               "vetta node list shows which and why"}},
    ReasonRow{"Nodes required for job are DOWN",
              {"the nodes that it needs are down, drained or reserved",
               "vetta node list shows which and why"}},
    ReasonRow{"NodeDown", {"a node that it needs is down", "vetta node list shows which and why"}},
};

constexpr std::array reasons_of_limits{
    ReasonRow{"PartitionTimeLimit",
              {"its time limit is longer than the partition allows",
               "ask for less with --time, or for another partition", true}},
    ReasonRow{"PartitionNodeLimit",
              {"it asks for more nodes than the partition allows", "ask for fewer nodes", true}},
    ReasonRow{
        "PartitionConfig",
        {"the partition does not allow what it asks for", "compare with vetta cluster show", true}},
    ReasonRow{"PartitionDown",
              {"its partition is closed", "ask the operators, or for another partition"}},
    ReasonRow{"PartitionInactive",
              {"its partition is inactive", "ask the operators, or for another partition"}},
    ReasonRow{
        "BadConstraints",
        {"no node is as it asks", "check --constraint, --mem, --gpus and --cpus-per-task", true}},
    ReasonRow{"InvalidAccount", {"its account is not valid", "check --account", true}},
    ReasonRow{"InvalidQOS", {"its QOS is not valid", "check --qos", true}},
    ReasonRow{"JobArrayTaskLimit",
              {"its array runs as many tasks as its % allows", "raise ArrayTaskThrottle"}},
    ReasonRow{"AssocGrp",
              {"its account has used up a limit that its users share",
               "wait for the account's jobs to end; "
               "sshare and sacctmgr show the limit"}},
    ReasonRow{"AssocMax",
              {"its owner has reached a limit of the account", "wait for the owner's jobs to end"}},
    ReasonRow{
        "QOSGrp",
        {"its QOS has used up a limit that all its users share", "wait, or use another --qos"}},
    ReasonRow{"QOSMax",
              {"its owner has reached a limit of the QOS",
               "wait for the owner's jobs to end, or ask for less"}},
    ReasonRow{
        "QOSMin",
        {"it asks for less than its QOS demands", "ask for more, or use another --qos", true}},
    ReasonRow{"QOS", {"a limit of its QOS holds it", "sacctmgr show qos shows the limit"}},
    ReasonRow{"Licenses", {"licences that it needs are in use", "wait for them"}},
    ReasonRow{"Reservation", {"its reservation has not begun", "scontrol show reservation"}},
    ReasonRow{"Cleaning", {"its earlier attempt is still being cleaned up", "wait a minute"}},
    ReasonRow{"SystemFailure",
              {"Slurm, a file system or the network failed", "tell the operators"}},
    ReasonRow{"JobLaunchFailure", {"its start failed on the node", "tell the operators"}},
    ReasonRow{"None", {"Slurm has not looked at it yet", "wait a minute"}},
};

}  // namespace

PendingReason pending_reason(std::string_view reason) {
  for (const std::span<const ReasonRow> rows : {std::span<const ReasonRow>(reasons_of_jobs),
                                                std::span<const ReasonRow>(reasons_of_limits)}) {
    for (const ReasonRow& row : rows) {
      if (reason.starts_with(row.reason)) return row.meaning;
    }
  }
  return {"Slurm gives a reason that Vetta has no words for",
          "man squeue, section JOB REASON CODES", false};
}

}  // namespace vetta::diagnose
