// token_stream.h: engine events of one request become the bytes of its answer.
//
//   engine::Event --on_token, on_finished--> streamed:  pending() holds server-sent events to send
//                                            otherwise: choices grow until append_body()
//
// All that a step brought for the request lies in pending() together, so it leaves in one write.
// The role chunk waits for the first content of its choice; text held back by the engine comes with
// the finish. After mute() nothing is produced any more: a client that is gone, a request that was
// cancelled.
//
// Choices are numbered over all prompts: prompt_index * n + choice.
//
// Thread:    I/O.
// Lifetime:  one per request; the request and the tokenizer outlive it.
// Tests:     tests/gateway/completion_test.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/step_output.h"
#include "engine/tokenizer/tokenizer.h"
#include "gateway/api/generation_request.h"
#include "gateway/api/generation_response.h"

namespace turnstile::gateway {

class TokenStream {
 public:
  // `prompts`: the token ids of each prompt; kept only when the request asked for ids.
  TokenStream(const GenerationRequest& request, ResponseFormat format,
              const engine::Tokenizer& tokenizer,
              std::span<const std::vector<engine::TokenId>> prompts);

  void on_token(std::uint32_t choice, const engine::Event& event,
                const engine::StepOutput& output, const Usage& usage);
  void on_finished(std::uint32_t choice, const engine::Event& event,
                   const engine::StepOutput& output, const Usage& usage);
  void mute();

  bool is_streamed() const { return request_.stream; }
  bool has_content() const { return has_content_; }  // some choice has text, or has ended
  bool has_fault() const { return has_fault_; }      // the engine gave up on a choice

  std::string& pending() { return pending_; }

  // The end of a stream that went well: the usage chunk when it was asked for, and [DONE].
  void append_end(std::string& out, const Usage& usage, const Explained& explained);
  void append_body(std::string& out, const Usage& usage, const Explained& explained);

  // "stop" or "length": of the choices the one that says most, length before stop.
  std::string_view finish_reason() const;

 private:
  struct Choice {
    ChoiceResult result;
    bool has_begun = false;  // its role chunk is out
  };

  ChunkExtras extras_of(const engine::Event& event, const engine::StepOutput& output,
                        const Usage& usage);
  void add_text(std::uint32_t choice, std::string_view text, const ChunkExtras& extras);
  TokenLogprob logprob_of(const engine::Event& event, const engine::StepOutput& output) const;
  std::span<const engine::TokenId> prompt_of(std::uint32_t choice) const;

  const GenerationRequest& request_;
  ResponseFormat format_;
  const engine::Tokenizer& tokenizer_;
  std::vector<std::vector<engine::TokenId>> prompts_;  // empty unless asked for
  std::vector<Choice> choices_;
  std::vector<TokenLogprob> logprobs_;  // of the token at hand
  std::string pending_;
  bool is_muted_ = false;
  bool has_content_ = false;
  bool has_fault_ = false;
  bool has_length_ = false;
};

}  // namespace turnstile::gateway
