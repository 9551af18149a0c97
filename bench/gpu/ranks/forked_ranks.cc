#include "bench/gpu/ranks/forked_ranks.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "bench/gpu/ranks/socket_transport.h"

namespace rondo {
namespace {

// [rank][peer]: rank's end of what joins the two; -1 to itself.
std::vector<std::vector<int>> SocketMesh(int world) {
  std::vector<std::vector<int>> sockets(world, std::vector<int>(world, -1));
  for (int a = 0; a < world; ++a) {
    for (int b = a + 1; b < world; ++b) {
      int pair[2];
      RONDO_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
      sockets[a][b] = pair[0];
      sockets[b][a] = pair[1];
    }
  }
  return sockets;
}

struct Rank {
  pid_t process = 0;
  int words = -1;  // the reading end of its pipe
  std::string said;
  bool ended = false;
};

[[noreturn]] void BeRank(int rank, const std::vector<std::vector<int>>& sockets, int words, const RankWork& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (size_t other = 0; other < sockets.size(); ++other) {
    if (static_cast<int>(other) == rank) continue;
    for (const int socket : sockets[other]) {
      if (socket >= 0) close(socket);
    }
  }
  absl::Status status;
  {
    SocketTransport control(rank, sockets[rank]);
    status = work(control);
    if (!status.ok()) control.Abort(status);  // nothing more is to be sent
  }
  if (!status.ok()) (void)!write(words, status.message().data(), status.message().size());
  std::fflush(nullptr);
  _exit(status.ok() ? 0 : 1);
}

// Until all pipes are closed, or the deadline.
void Listen(std::vector<Rank>& ranks, absl::Time deadline) {
  while (true) {
    std::vector<pollfd> watched;
    bool any = false;
    for (const Rank& rank : ranks) {
      watched.push_back({rank.ended ? -1 : rank.words, POLLIN, 0});
      any |= !rank.ended;
    }
    const int64_t left_ms = absl::ToInt64Milliseconds(deadline - absl::Now());
    if (!any || left_ms <= 0) return;
    poll(watched.data(), watched.size(), static_cast<int>(left_ms));
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (watched[i].revents == 0) continue;
      char text[512];
      const ssize_t got = read(ranks[i].words, text, sizeof(text));
      if (got > 0) ranks[i].said.append(text, static_cast<size_t>(got));
      ranks[i].ended = got == 0;
    }
  }
}

}  // namespace

std::vector<std::string> RunInProcesses(int world, absl::Duration limit, const RankWork& work) {
  const std::vector<std::vector<int>> sockets = SocketMesh(world);
  std::vector<Rank> ranks(world);
  std::fflush(nullptr);  // or every rank would print what is buffered once more
  for (int i = 0; i < world; ++i) {
    int pipe_ends[2];
    RONDO_CHECK(pipe(pipe_ends) == 0);
    ranks[i].words = pipe_ends[0];
    ranks[i].process = fork();
    RONDO_CHECK(ranks[i].process >= 0);
    if (ranks[i].process == 0) {
      for (int other = 0; other <= i; ++other) close(ranks[other].words);
      BeRank(i, sockets, pipe_ends[1], work);
    }
    close(pipe_ends[1]);
  }
  for (const std::vector<int>& of_rank : sockets) {
    for (const int socket : of_rank) {
      if (socket >= 0) close(socket);
    }
  }
  Listen(ranks, absl::Now() + limit);
  std::vector<std::string> ends;
  for (Rank& rank : ranks) {
    if (!rank.ended) kill(rank.process, SIGKILL);
    int status = 0;
    RONDO_CHECK(waitpid(rank.process, &status, 0) == rank.process);
    close(rank.words);
    if (!rank.ended) {
      ends.push_back(absl::StrCat("not through after ", absl::FormatDuration(limit)));
    } else if (WIFSIGNALED(status)) {
      ends.push_back(absl::StrCat("ended by signal ", WTERMSIG(status), " ", strsignal(WTERMSIG(status))));
    } else if (WEXITSTATUS(status) != 0) {
      ends.push_back(rank.said.empty() ? absl::StrCat("exit code ", WEXITSTATUS(status)) : rank.said);
    } else {
      ends.emplace_back();
    }
  }
  return ends;
}

}  // namespace rondo
