// SPDX-License-Identifier: Apache-2.0
// The two sockets on a real event loop: who is let in, and how many.
#include "collect/intake.h"

#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace vetta::collect {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t somebody = 65534;

/// Connects as another user (only root can).
class AsSomebody {
 public:
  AsSomebody() { EXPECT_EQ(::seteuid(somebody), 0); }

  ~AsSomebody() { EXPECT_EQ(::seteuid(0), 0); }

  AsSomebody(const AsSomebody&) = delete;
  AsSomebody& operator=(const AsSomebody&) = delete;
};

Duration thread_cpu() {
  timespec at{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
  return std::chrono::seconds(at.tv_sec) + std::chrono::nanoseconds(at.tv_nsec);
}

class IntakeOfANode : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "intake-" + std::to_string(::getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
    loop_ = sys::EventLoop::make().value();
    rings_.emplace(Rings::open(folder_ + "/rings").value());
  }

  void TearDown() override {
    intake_.reset();
    std::filesystem::remove_all(folder_);
  }

  void open(Intake::Limits limits = {}) {
    auto intake = Intake::open(folder_, Intake::Parts{*loop_, table_, *rings_, discovery_,
                                                      [](std::string_view) {}, limits});
    ASSERT_TRUE(intake) << intake.error().text();
    intake_ = std::move(*intake);
  }

  [[nodiscard]] sys::PacketSocket connect() const {
    return sys::PacketSocket::connect(folder_ + "/probe.sock").value();
  }

  void run(Duration span) {
    loop_->after(span, [this] { loop_->stop(); });
    loop_->run();
  }

  /// What the agent says to `hello`; "closed" without an answer, "" when it says nothing in time.
  std::string answer(sys::PacketSocket& socket) {
    std::string out;
    const Duration until = monotonic_now() + 5s;
    while (out.empty() && monotonic_now() < until) {
      run(1ms);
      const auto got = socket.receive(8192);
      if (!got || (*got && (*got)->empty())) return "closed";
      if (*got) out = **got;
    }
    return out;
  }

  /// This process as a task of that user.
  void be_task_of(std::uint32_t uid) {
    Registration registration;
    registration.job_id = 1;
    registration.step_id = "0";
    registration.task = 0;
    registration.tasks = 1;
    registration.uid = uid;
    registration.pid = ::getpid();
    table_.take(registration);
  }

  static constexpr std::string_view hello = R"({"vetta": 1, "pid": 1, "rank": 0, "world_size": 1,)"
                                            R"( "local_rank": 0, "source": "hand"})";
  std::string folder_;
  std::uint64_t last_id_ = 0;
  std::unique_ptr<sys::EventLoop> loop_;
  sys::Procfs proc_;
  RankTable table_{"n001", [this] { return ++last_id_; }};
  Discovery discovery_{proc_, table_, "n001", true};
  std::optional<Rings> rings_;
  std::unique_ptr<Intake> intake_;
};

TEST_F(IntakeOfANode, OnlyRootAndTheAgentsUserReachTheTasksSocket) {
  open();
  struct stat info{};

  ASSERT_EQ(::stat((folder_ + "/agent.sock").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat((folder_ + "/probe.sock").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0666U);
}

TEST_F(IntakeOfANode, AProbeOfATaskGetsARing) {
  open();
  be_task_of(::geteuid());
  auto probe = connect();
  ASSERT_TRUE(probe.send(hello));
  EXPECT_NE(answer(probe).find(".ring"), std::string::npos);
}

TEST_F(IntakeOfANode, WithoutADescriptorLeftItWaitsInsteadOfSpinning) {
  open();
  auto probe = connect();
  ASSERT_TRUE(probe.send(hello));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest_free = ::open("/", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(lowest_free, 0);
  ::close(lowest_free);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(lowest_free);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Duration cpu = thread_cpu();
  run(300ms);
  const Duration spent = thread_cpu() - cpu;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_LT(spent, 100ms);
  EXPECT_NE(answer(probe).find("belongs to no Slurm task"), std::string::npos)
      << "it is let in as soon as there is room";
}

TEST_F(IntakeOfANode, OneUserCannotTakeAllConnections) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can connect as two users";
  open({.probes_a_user = 4});
  std::vector<sys::PacketSocket> silent;
  {
    const AsSomebody other;
    for (int i = 0; i < 40; ++i) silent.push_back(connect());
  }
  auto own = connect();
  ASSERT_TRUE(own.send(hello));
  EXPECT_NE(answer(own).find("error"), std::string::npos);
  std::size_t closed = 0;
  for (sys::PacketSocket& socket : silent) {
    const auto got = socket.receive(100);
    if (!got || *got) ++closed;
  }
  EXPECT_EQ(closed, 36U);
}

TEST_F(IntakeOfANode, OneUserCannotTakeAllRings) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can connect as two users";
  open({.rings_a_user = 1});
  be_task_of(somebody);
  sys::RingHeader header;
  header.rank_id = 77;
  header.uid = somebody;
  header.slots = 16;
  ASSERT_TRUE(rings_->make(header));
  const auto ask = [this] {
    const AsSomebody other;
    auto probe = connect();
    EXPECT_TRUE(probe.send(hello));
    return probe;
  };
  auto refused = ask();
  EXPECT_NE(answer(refused).find("has 1 rings"), std::string::npos);
  rings_->remove(77);
  auto taken = ask();
  EXPECT_NE(answer(taken).find(".ring"), std::string::npos);
}

}  // namespace
}  // namespace vetta::collect
