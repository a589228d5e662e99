#include "runtime/backends/mpi/mpi_group.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <thread>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/backends/mpi/mpi_error.h"
#include "runtime/backends/mpi/mpi_types.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/base/short_array.h"
#include "runtime/base/start_thread.h"

namespace dlaunch::internal {

namespace {

// Of notices, and of the messages within a collective.
constexpr int notice_tag = 30'000;
constexpr int part_tag = 1;

// Calls `post(piece, tag)` for equal pieces, or for the whole. Messages of different numbers of pieces never
// meet.
template <class Bytes, class Post>
void in_pieces(Bytes bytes, const Post& post) {
  const std::size_t pieces = (bytes.size() + sent_at_once - 1) / sent_at_once;
  if (pieces <= 1 || pieces > most_pieces) return post(bytes, part_tag);
  const std::size_t length = (bytes.size() + pieces - 1) / pieces;
  for (std::size_t at = 0; at < bytes.size(); at += length)
    post(bytes.subspan(at, std::min(length, bytes.size() - at)), part_tag + static_cast<int>(pieces));
}

struct Communicators {
  MPI_Comm collectives = MPI_COMM_NULL;
  MPI_Comm messages = MPI_COMM_NULL;
};

Communicators communicators_of(const std::vector<int>& world_ranks, int tag) {
  Communicators made;
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group members = MPI_GROUP_NULL;
  require_mpi(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  require_mpi(MPI_Group_incl(world, static_cast<int>(world_ranks.size()), world_ranks.data(), &members),
              "MPI_Group_incl");
  require_mpi(MPI_Comm_create_group(MPI_COMM_WORLD, members, tag, &made.collectives),
              "MPI_Comm_create_group");
  (void)MPI_Group_free(&members);
  (void)MPI_Group_free(&world);
  require_mpi(MPI_Comm_set_errhandler(made.collectives, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  require_mpi(MPI_Comm_dup(made.collectives, &made.messages), "MPI_Comm_dup");
  require_mpi(MPI_Comm_set_errhandler(made.messages, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return made;
}

// The calls above wait for the other ranks without a deadline: a thread makes them. If they do not return in
// time it is left alone; the module is never unloaded.
Communicators communicators_until(const BackendContext& context, std::vector<int> world_ranks, int tag) {
  std::packaged_task<Communicators()> task(
      [world_ranks = std::move(world_ranks), tag] { return communicators_of(world_ranks, tag); });
  std::future<Communicators> made = task.get_future();
  start_thread(std::move(task)).detach();
  constexpr auto turn = std::chrono::milliseconds(200);
  while (made.wait_for(std::min<std::chrono::milliseconds>(turn, time_left(context.deadline))) !=
         std::future_status::ready) {
    if (context.check) context.check();
    if (has_passed(context.deadline)) {
      MpiUse::leave_unfinished();
      throw DistBackendError("MPI has not made a communicator for the group's " +
                             std::to_string(context.size) + " ranks before the deadline");
    }
  }
  return made.get();
}

// The members in MPI_COMM_WORLD, and a tag that no group made at the same time has.
std::pair<std::vector<int>, int> exchange_places(const BackendContext& context) {
  static std::atomic<int> groups = 0;
  constexpr int tags = 16'384;
  const int own_rank = mpi_place().rank;
  const auto key = [](int rank) { return "place/" + std::to_string(rank); };
  if (context.rank == 0) context.store.set("tag", std::to_string(groups.fetch_add(1) % tags));
  context.store.set(key(context.rank), std::to_string(own_rank));
  std::vector<int> places;
  places.reserve(static_cast<std::size_t>(context.size));
  for (int rank = 0; rank < context.size; ++rank)
    places.push_back(std::stoi(context.store.get(key(rank), context.deadline)));
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto same = std::find(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(i), places[i]);
    if (same - places.begin() < static_cast<std::ptrdiff_t>(i)) {
      throw DistBackendError("rank " + std::to_string(same - places.begin()) + " and rank " +
                             std::to_string(i) + " are both rank " + std::to_string(places[i]) +
                             " of MPI: start each rank with mpirun or mpiexec");
    }
  }
  return {std::move(places), std::stoi(context.store.get("tag", context.deadline))};
}

}  // namespace

MpiGroup::MpiGroup(const BackendContext& context)
    : control_plane_(context.control_plane), rank_(context.rank), size_(context.size) {
  const int on_host = mpi_place().local_size.value_or(mpi_place().size);
  is_crowded_ = on_host > static_cast<int>(std::thread::hardware_concurrency());
  make_communicators(context);
}

void MpiGroup::make_communicators(const BackendContext& context) {
  auto [places, tag] = exchange_places(context);
  const Communicators made = communicators_until(context, std::move(places), tag);
  collectives_ = made.collectives;
  messages_ = made.messages;
  int* largest = nullptr;
  int is_known = 0;
  const MpiCallLock call;
  require_mpi(MPI_Comm_get_attr(messages_, MPI_TAG_UB, static_cast<void*>(&largest), &is_known),
              "MPI_Comm_get_attr");
  largest_tag_ = is_known != 0 ? *largest : 32'767;  // the least that the standard promises
  incoming_ = std::make_unique<Notice>();
  post_notice_receive();
}

// The communicators are not freed: a message to one that is still on its way would arrive in the next one
// that MPI gives the same number. MPI_Finalize does it.
MpiGroup::~MpiGroup() {
  const std::lock_guard lock(notices_mutex_);
  const MpiCallLock call;
  bool is_over = true;
  if (incoming_request_ != MPI_REQUEST_NULL) {
    (void)MPI_Cancel(&incoming_request_);
    int done = 0;
    is_over = MPI_Test(&incoming_request_, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done != 0;
  }
  if (!is_over) (void)incoming_.release();  // MPI may still write to it
  int all_sent = 1;
  if (!outgoing_requests_.empty()) {
    (void)MPI_Testall(static_cast<int>(outgoing_requests_.size()), outgoing_requests_.data(), &all_sent,
                      MPI_STATUSES_IGNORE);
  }
  if (all_sent == 0) (void)outgoing_.release();
}

bool MpiGroup::is_complete(std::span<MPI_Request> requests, std::span<MPI_Status> statuses,
                           const char* call) {
  int done = 0;
  const MpiCallLock lock;
  const int code = requests.size() == 1
                       ? MPI_Test(requests.data(), &done, statuses.data())
                       : MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done,
                                     statuses.empty() ? MPI_STATUSES_IGNORE : statuses.data());
  if (code == MPI_ERR_IN_STATUS && !statuses.empty()) {
    for (const MPI_Status& status : statuses) require_mpi(status.MPI_ERROR, call);
  }
  require_mpi(code, call);
  return done != 0;
}

// MPI cuts long data in pieces, and begins the next one only when it is asked: with a pause before each, a
// reduce of 4 MiB took half a second.
bool MpiGroup::complete_soon(std::span<MPI_Request> requests, std::span<MPI_Status> statuses,
                             Deadline deadline, std::size_t bytes, const char* call) {
  using std::chrono::microseconds;
  constexpr int polls_at_once = 100;        // before the clock is read
  constexpr std::size_t least_speed = 256;  // bytes a microsecond
  const microseconds work = microseconds(is_crowded_ ? 1000 : 10'000) + microseconds(bytes / least_speed);
  for (int polls = 0; polls < polls_at_once; ++polls) {
    if (is_complete(requests, statuses, call)) return true;
    if (is_crowded_) std::this_thread::yield();
  }
  const auto until = std::chrono::steady_clock::now() + work;
  while (std::chrono::steady_clock::now() < until) {
    for (int polls = 0; polls < polls_at_once; ++polls) {
      if (is_complete(requests, statuses, call)) return true;
      if (is_crowded_) std::this_thread::yield();
    }
    check();
    if (has_passed(deadline)) throw late_error();
  }
  return false;
}

void MpiGroup::complete_late(std::span<MPI_Request> requests, std::span<MPI_Status> statuses,
                             Deadline deadline, const char* call) {
  using std::chrono::microseconds;
  constexpr microseconds longest_pause(1000);
  for (microseconds pause(20); !is_complete(requests, statuses, call);
       pause = std::min(pause * 3 / 2, longest_pause)) {
    check();
    if (has_passed(deadline)) throw late_error();
    std::unique_lock lock(mutex_);
    (void)broken_.wait_for(lock, pause, [this] { return is_broken_.load(); });
  }
}

void MpiGroup::complete(std::span<MPI_Request> requests, std::span<MPI_Status> statuses, Deadline deadline,
                        std::size_t bytes, const char* call) {
  if (!complete_soon(requests, statuses, deadline, bytes, call))
    complete_late(requests, statuses, deadline, call);
}

DistNetworkError MpiGroup::late_error() const {
  return DistNetworkError(
      "not all ranks came before the deadline; MPI cannot take the operation back: the group is broken, and "
      "the memory of the operation must stay as it is until the process ends");
}

void MpiGroup::check() {
  receive_notices();
  fail_if_broken();
  if (control_plane_) control_plane_->check();
}

void MpiGroup::check_now_and_then() {
  constexpr unsigned seldom = 32;
  const unsigned begun = messages_begun_.load(std::memory_order_relaxed);
  messages_begun_.store(begun + 1, std::memory_order_relaxed);  // two threads may count as one
  if (begun % seldom == 0) return check();
  fail_if_broken();
}

void MpiGroup::fail_if_broken() {
  if (!is_broken_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  throw DistNetworkError(reason_, {.peer = culprit_});
}

std::vector<int> MpiGroup::departed() {
  receive_notices();
  const std::lock_guard lock(mutex_);
  return departed_;
}

// With notices_mutex_ held, or before other threads know the group.
void MpiGroup::post_notice_receive() {
  require_mpi(MPI_Irecv(incoming_.get(), static_cast<int>(sizeof(Notice)), MPI_BYTE, MPI_ANY_SOURCE,
                        notice_tag, collectives_, &incoming_request_),
              "MPI_Irecv");
}

void MpiGroup::receive_notices() {
  const std::unique_lock lock(notices_mutex_, std::try_to_lock);
  if (!lock) return;  // another thread does it
  const MpiCallLock call;
  while (incoming_request_ != MPI_REQUEST_NULL) {
    int done = 0;
    MPI_Status status;
    require_mpi(MPI_Test(&incoming_request_, &done, &status), "MPI_Test");
    if (done == 0) return;
    take_notice(status.MPI_SOURCE);
    post_notice_receive();
  }
}

void MpiGroup::take_notice(int from) {
  incoming_->text[sizeof incoming_->text - 1] = '\0';
  const std::lock_guard lock(mutex_);
  if (incoming_->kind == NoticeKind::goodbye) {
    departed_.push_back(from);
    return;
  }
  if (is_broken_) return;
  reason_ = std::string(it_gave_up) + ": " + incoming_->text;
  culprit_ = from;
  is_broken_.store(true, std::memory_order_release);
  broken_.notify_all();
}

void MpiGroup::send_notices(NoticeKind kind, const std::string& text) {
  const std::lock_guard lock(notices_mutex_);
  const MpiCallLock call;
  if (outgoing_) return;  // a broken group says no goodbye
  outgoing_ = std::make_unique<Notice>();
  outgoing_->kind = kind;
  text.copy(outgoing_->text, sizeof outgoing_->text - 1);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    MPI_Request request = MPI_REQUEST_NULL;
    if (MPI_Isend(outgoing_.get(), static_cast<int>(sizeof(Notice)), MPI_BYTE, peer, notice_tag, collectives_,
                  &request) == MPI_SUCCESS) {
      outgoing_requests_.push_back(request);
    }
  }
}

void MpiGroup::break_up(const std::string& reason) noexcept {
  try {
    {
      const std::lock_guard lock(mutex_);
      if (is_broken_) return;
      reason_ = reason;
      is_broken_.store(true, std::memory_order_release);
      broken_.notify_all();
    }
    MpiUse::leave_unfinished();
    send_notices(NoticeKind::failure, reason);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the others find it by their deadlines
  }
}

void MpiGroup::say_goodbye() noexcept {
  try {
    send_notices(NoticeKind::goodbye, "");
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): nobody waits for it
  }
}

MpiRequests::~MpiRequests() {
  const bool all_over =
      std::ranges::all_of(memory_.requests, [](MPI_Request request) { return request == MPI_REQUEST_NULL; });
  if (!all_over) {
    MpiUse::leave_unfinished();
    for (MpiScratch& block : memory_.scratch) block.leave();
    (void)memory_.short_scratch.release();
  }
  memory_.requests.clear();
  memory_.receives.clear();
  memory_.scratch.clear();
}

MPI_Request* MpiRequests::add(std::size_t received) {
  memory_.receives.push_back(received);
  return &memory_.requests.emplace_back(MPI_REQUEST_NULL);
}

void MpiRequests::post_send(std::span<const std::byte> bytes, int to) {
  in_pieces(bytes, [&](std::span<const std::byte> piece, int tag) {
    const MpiBytes what(piece.size());
    const MpiCallLock lock;
    require_mpi(MPI_Isend(piece.data(), what.count(), what.type(), to, tag, group_.collectives(), add()),
                "MPI_Isend");
  });
}

void MpiRequests::post_recv(std::span<std::byte> bytes, int from) {
  in_pieces(bytes, [&](std::span<std::byte> piece, int tag) {
    const MpiBytes what(piece.size());
    const MpiCallLock lock;
    require_mpi(MPI_Irecv(piece.data(), what.count(), what.type(), from, tag, group_.collectives(),
                          add(piece.size())),
                "MPI_Irecv");
  });
}

std::span<std::byte> MpiRequests::scratch(std::size_t bytes) {
  constexpr std::size_t unit = 64;
  if (bytes <= short_scratch_size - short_scratch_used_) {
    if (!memory_.short_scratch)
      memory_.short_scratch = std::make_unique_for_overwrite<std::byte[]>(short_scratch_size);
    std::byte* const place = memory_.short_scratch.get() + short_scratch_used_;
    short_scratch_used_ =
        std::min((short_scratch_used_ + bytes + unit - 1) / unit * unit, short_scratch_size);
    return {place, bytes};
  }
  return memory_.scratch.emplace_back(bytes).bytes();
}

void MpiRequests::complete(const char* call) {
  std::vector<MPI_Request>& requests = memory_.requests;
  ShortArray<MPI_Status, 16> statuses(requests.size(), [](std::size_t) { return MPI_Status{}; });
  if (!requests.empty()) group_.complete(requests, statuses, deadline_, bytes_, call);
  check_lengths(statuses);
  requests.clear();
  memory_.receives.clear();
}

// A rank that sends less than this one expects, or other pieces, has made another call.
void MpiRequests::check_lengths(std::span<const MPI_Status> statuses) const {
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    const std::size_t wanted = memory_.receives[i];
    if (wanted == any || wanted == 0) continue;  // MPI itself rejects a longer message
    const std::size_t received = received_bytes(statuses[i], wanted);
    if (received == wanted) continue;
    throw DistNetworkError("rank " + std::to_string(statuses[i].MPI_SOURCE) + " sent " +
                               std::to_string(received) + " bytes where this rank expects " +
                               std::to_string(wanted) + ": the calls of the two ranks differ",
                           {.peer = statuses[i].MPI_SOURCE});
  }
}

}  // namespace dlaunch::internal
