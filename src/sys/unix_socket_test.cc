// SPDX-License-Identifier: Apache-2.0
#include "sys/unix_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/files.h"

namespace vetta::sys {
namespace {

std::string socket_path(const char* name) {
  return "/tmp/vetta-test-" + std::to_string(::getpid()) + "-" + name;
}

TEST(DatagramSocket, CarriesTheKernelsWordOnTheSender) {
  const std::string path = socket_path("dgram");
  {
    auto socket = DatagramSocket::bind(path, 0666);
    ASSERT_TRUE(socket) << socket.error().text();
    struct stat info{};

    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0666U);
    EXPECT_FALSE(socket->receive(100)->has_value());
    ASSERT_TRUE(send_datagram(path, "hello"));
    const auto got = socket->receive(100);
    ASSERT_TRUE(got && got->has_value());
    EXPECT_EQ((*got)->bytes, "hello");
    EXPECT_EQ((*got)->peer->pid, ::getpid());
    EXPECT_EQ((*got)->peer->uid, ::getuid());
    ASSERT_TRUE(send_datagram(path, std::string(200, 'x')));
    EXPECT_TRUE((*socket->receive(100))->is_cut);
  }
  auto again = DatagramSocket::bind(path, 0600);  // over the file of one that died
  EXPECT_TRUE(again);
  ::unlink(path.c_str());
  EXPECT_EQ(send_datagram(path, "x").error().code, Code::unavailable);
}

TEST(DatagramSocket, AFullReceiverDoesNotHoldTheSender) {
  const std::string path = socket_path("full");
  const auto socket = DatagramSocket::bind(path, 0666);
  ASSERT_TRUE(socket);
  int sent = 0;
  while (sent < 100'000 && send_datagram(path, "x")) ++sent;
  EXPECT_GT(sent, 0);
  EXPECT_LT(sent, 100'000);
  ::unlink(path.c_str());
}

TEST(DatagramSocket, ALongPathIsRefusedWithTheReason) {
  const auto socket = DatagramSocket::bind("/tmp/" + std::string(120, 'x'), 0666);
  ASSERT_FALSE(socket);
  EXPECT_NE(socket.error().message.find("107"), std::string::npos);
}

TEST(PacketSocket, PassesADescriptorAndKnowsItsPeer) {
  const std::string path = socket_path("packet");
  auto listener = PacketListener::bind(path, 0666);
  ASSERT_TRUE(listener);
  EXPECT_FALSE(listener->accept()->has_value());
  auto client = PacketSocket::connect(path);
  ASSERT_TRUE(client);
  auto served = listener->accept();
  ASSERT_TRUE(served && served->has_value());
  PacketSocket& server = **served;
  EXPECT_EQ(server.peer()->pid, ::getpid());
  ASSERT_TRUE(client->send("hello"));
  EXPECT_EQ(server.receive(100)->value(), "hello");
  const auto file = open_file("/proc/self/stat", O_RDONLY);
  ASSERT_TRUE(server.send("take this", file->get()));
  const auto got = client->receive_with_fd(100);
  ASSERT_TRUE(got && got->has_value());
  EXPECT_EQ((*got)->first, "take this");
  EXPECT_GE((*got)->second.get(), 0);
  ASSERT_TRUE(client->send(std::string(200, 'x')));
  EXPECT_EQ(server.receive(100).error().code, Code::invalid);
  client = fail(Code::internal, "close");
  EXPECT_EQ(server.receive(100)->value(), "");
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace vetta::sys
