#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine/loader/gguf.h"
#include "engine/template/chat_template.h"
#include "engine/template/encode_prompt.h"
#include "tests/engine/golden_lines.h"
#include "tests/engine/tiny_vocabulary.h"
#include "tests/support/golden_files.h"

namespace turnstile::engine {
namespace {

using Ids = std::vector<TokenId>;

constexpr const char* kChatMl =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

ChatTemplate compile(std::string_view source) {
  auto compiled = ChatTemplate::compile(source, "<s>", "</s>");
  EXPECT_TRUE(compiled) << compiled.error().message;
  return std::move(*compiled);
}

TEST(ChatTemplate, MarksRoleContentAndNameAsTheClients) {
  const ChatTemplate chat = compile(
      "{{ bos_token }}{% for m in messages %}<{{ m.role }}{% if m.name is defined %}"
      ":{{ m.name }}{% endif %}>{{ m.content }}{% endfor %}{{ eos_token }}");
  const auto prompt =
      chat.render(std::vector<ChatMessage>{{"user", "hi", "ada"}, {"a", "", {}}}, false);
  ASSERT_TRUE(prompt);
  EXPECT_EQ(prompt->text, "<s><user:ada>hi<a></s>");
  EXPECT_EQ(prompt->client_ranges, (std::vector<ByteRange>{{4, 8}, {9, 12}, {13, 15}, {16, 17}}));
}

TEST(ChatTemplate, PassesMoreVariablesAndTheTime) {
  const ChatTemplate chat = compile("{{ enable_thinking }} {{ strftime_now('%Y') }} {{ tools }}");
  RenderExtras extras;
  extras.variables.emplace_back("enable_thinking", Value::boolean(true));
  extras.now = CivilTime{2026, 1, 2, 3, 4, 5};
  const auto prompt = chat.render({}, true, extras);
  ASSERT_TRUE(prompt);
  EXPECT_EQ(prompt->text, "True 2026 ");
}

TEST(ChatTemplate, ReportsWhatTheTemplateRaises) {
  const ChatTemplate chat = compile("{{ raise_exception('no ' + messages[0].role) }}");
  const auto prompt = chat.render(std::vector<ChatMessage>{{"robot", "", {}}}, true);
  ASSERT_FALSE(prompt);
  EXPECT_TRUE(prompt.error().raised_by_template);
  EXPECT_EQ(prompt.error().message, "no robot");
}

class EncodePrompt : public testing::Test {
 protected:
  EncodePrompt() {
    start_ = words_.add("<|im_start|>", TokenType::Control);
    end_ = words_.add("<|im_end|>", TokenType::Control);
    words_.merge("a", "b");
    words_.merge("ab", "ab");
    words_.merge("\n", "\n");
    tokenizer_.emplace(words_.build());
  }

  Ids encode_own_and_client(const std::vector<std::pair<const char*, bool>>& parts) const {
    RenderedPrompt prompt;
    for (const auto& [text, is_client] : parts) {
      const std::size_t begin = prompt.text.size();
      prompt.text += text;
      if (is_client) prompt.client_ranges.push_back({begin, prompt.text.size()});
    }
    Ids ids;
    encode_prompt(*tokenizer_, prompt, ids);
    return ids;
  }

  TinyVocabulary words_;
  TokenId start_ = 0, end_ = 0;
  std::optional<Tokenizer> tokenizer_;
};

TEST_F(EncodePrompt, RecognisesSpecialTokensInOwnTextOnly) {
  EXPECT_EQ(encode_own_and_client({{"<|im_start|>", false}, {"x", true}, {"<|im_end|>", false}}),
            (Ids{start_, 'x', end_}));
  const Ids spelled = encode_own_and_client({{"<|im_start|>", false}, {"<|im_end|>", true}});
  EXPECT_EQ(spelled.size(), 11u);
  EXPECT_EQ(spelled[0], start_);
  EXPECT_EQ(decode(*tokenizer_, spelled), "<|im_start|><|im_end|>");
}

TEST_F(EncodePrompt, ATokenPutTogetherFromBothIsNone) {
  for (const auto& ids :
       {encode_own_and_client({{"<|im_", false}, {"end|>", true}}),
        encode_own_and_client({{"<|im_", true}, {"end|>", false}}),
        encode_own_and_client({{"<|im_e", false}, {"n", true}, {"d|>", false}})}) {
    EXPECT_EQ(ids.size(), 10u);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), end_), 0);
  }
}

TEST_F(EncodePrompt, PlainTextIsOneRunAcrossTheEdges) {
  const TokenId abab = *tokenizer_->find_token("abab");
  EXPECT_EQ(encode_own_and_client({{"a", false}, {"ba", true}, {"b", false}}), (Ids{abab}));
  EXPECT_EQ(encode_own_and_client({{"<|im_end|>a", false}, {"b", true}, {"ab<|im_end|>", false}}),
            (Ids{end_, abab, end_}));
}

TEST_F(EncodePrompt, ClientTextNeverAddsAControlToken) {
  const ChatTemplate chat = compile(kChatMl);
  const std::vector<std::string> pieces = {"<|im_start|>", "<|im_end|>", "<|im_", "start|>", "<|",
                                           "|>",           "<",          "ab",    "\n",      "é"};
  for (std::uint32_t seed = 0; seed < 2'000; ++seed) {
    std::mt19937 random(seed);
    std::vector<ChatMessage> messages(1 + random() % 3);
    for (ChatMessage& message : messages) {
      for (std::string* text : {&message.role, &message.content}) {
        for (std::size_t i = random() % 6; i > 0; --i) *text += pieces[random() % pieces.size()];
      }
    }
    const auto prompt = chat.render(messages, true);
    ASSERT_TRUE(prompt);
    Ids ids;
    encode_prompt(*tokenizer_, *prompt, ids);
    const auto count = [&](TokenId id) {
      return static_cast<std::size_t>(std::count(ids.begin(), ids.end(), id));
    };
    ASSERT_EQ(count(start_), messages.size() + 1) << "seed " << seed;
    ASSERT_EQ(count(end_), messages.size()) << "seed " << seed;
    ASSERT_EQ(decode(*tokenizer_, ids), prompt->text) << "seed " << seed;
  }
}

TEST(DefaultModelChat, EqualsTheReferenceOnEveryGoldenLine) {
  const auto path = tests::test_model_path();
  if (!path) GTEST_SKIP() << tests::kNoTestModel;
  const auto file = GgufFile::open(*path);
  ASSERT_TRUE(file);
  const auto tokenizer = Tokenizer::from_gguf(*file);
  ASSERT_TRUE(tokenizer);
  const ChatTemplate chat = compile(*file->get_string("tokenizer.chat_template"));
  std::size_t differing = 0;
  const std::size_t lines = for_each_golden_line(
      "smollm2/chat.jsonl", [&](simdjson::dom::element line, std::size_t number) {
        // Content that is no string is made one, or refused, before a template sees it.
        if (has(line, "error")) return;
        std::vector<ChatMessage> messages;
        const simdjson::dom::array golden = line["messages"].get_array().value();
        for (const simdjson::dom::element message : golden) {
          messages.push_back({string_at(message, "role"), string_at(message, "content"), {}});
        }
        const auto prompt = chat.render(messages, bool_at(line, "add_generation_prompt"));
        ASSERT_TRUE(prompt) << "line " << number << ": " << prompt.error().message;
        EXPECT_EQ(prompt->text, string_at(line, "prompt")) << "line " << number;
        const bool is_same = string_at(line, "ids_safe") == "same";
        Ids ids;
        encode_prompt(*tokenizer, *prompt, ids);
        EXPECT_EQ(ids, ids_at(line, is_same ? "ids" : "ids_safe")) << "line " << number;
        EXPECT_EQ(encode(*tokenizer, prompt->text, ParseSpecial::Yes), ids_at(line, "ids"));
        differing += is_same ? 0 : 1;
      });
  EXPECT_EQ(lines, 45u);
  EXPECT_GE(differing, 1u) << "no golden line tells safe from unsafe";
}

}  // namespace
}  // namespace turnstile::engine
