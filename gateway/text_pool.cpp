#include "gateway/text_pool.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace turnstile::gateway {

bool TextPool::try_start(TextTicket& ticket, std::size_t class_index, std::string_view team,
                         std::unique_ptr<TextTask> task) {
  assert(ticket.state_ == TextTicket::State::New && "a ticket is for one task");
  const auto found = tasks_by_team_.find(team);
  const std::size_t of_team = found == tasks_by_team_.end() ? 0 : found->second;
  if (waiting_.size() == kMaxTasks || of_team == kMaxTasksOfTeam) return false;
  ticket.team_ = team;
  ++tasks_by_team_[ticket.team_];
  ticket.order_ = {class_index, of_team, ++last_id_};
  ticket.state_ = TextTicket::State::Waiting;
  waiting_.emplace(ticket.order_, Waiting{&ticket, std::move(task)});
  give_out();
  return true;
}

void TextPool::give_out() {
  while (!waiting_.empty() && running_.size() < workers_.count()) {
    auto first = waiting_.extract(waiting_.begin());
    const std::uint64_t id = std::get<2>(first.key());
    TextTicket* ticket = first.mapped().ticket;
    ticket->state_ = TextTicket::State::Running;
    running_.push_back({id, ticket});
    workers_.give({id, std::move(first.mapped().task), nullptr});
  }
}

void TextPool::take_done() {
  while (auto job = workers_.try_take()) {
    const auto ended = std::ranges::find(running_, job->id, &Running::id);
    assert(ended != running_.end() && "a worker gives back what it was given");
    TextTicket* ticket = ended->ticket;
    running_.erase(ended);
    if (ticket == nullptr) continue;
    leave_team(ticket->team_);
    ticket->state_ = TextTicket::State::Done;
    ticket->done_ = std::move(*job);
    ticket->mailbox_.put(EventKind::TextDone);
  }
  give_out();
}

void TextPool::let_go(TextTicket& ticket) {
  const std::uint64_t id = std::get<2>(ticket.order_);
  switch (ticket.state_) {
    case TextTicket::State::New: return;
    case TextTicket::State::Done: ticket.mailbox_.discard(EventKind::TextDone); return;
    case TextTicket::State::Waiting: waiting_.erase(ticket.order_); break;
    case TextTicket::State::Running:
      std::ranges::find(running_, id, &Running::id)->ticket = nullptr;
      break;
  }
  leave_team(ticket.team_);
}

void TextPool::leave_team(const std::string& team) {
  const auto found = tasks_by_team_.find(team);
  if (--found->second == 0) tasks_by_team_.erase(found);
}

std::optional<std::string> TextPool::check_invariants() const {
  if (running_.size() > workers_.count()) return "a worker with two tasks";
  if (!waiting_.empty() && running_.size() < workers_.count()) return "a task waits, a worker too";
  std::size_t counted = 0;
  for (const auto& [team, tasks] : tasks_by_team_) counted += tasks;
  const auto for_somebody = std::ranges::count_if(
      running_, [](const Running& running) { return running.ticket != nullptr; });
  if (counted != waiting_.size() + static_cast<std::size_t>(for_somebody)) {
    return "the teams' tasks are not the open tasks";
  }
  return std::nullopt;
}

std::unique_ptr<TextTask> TextTicket::take() {
  assert(is_done() && done_.task != nullptr && "a task is taken once, when it is done");
  if (done_.failure) std::rethrow_exception(done_.failure);
  return std::move(done_.task);
}

}  // namespace turnstile::gateway
