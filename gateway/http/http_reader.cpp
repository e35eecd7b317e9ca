#include "gateway/http/http_reader.h"

#include <cassert>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

#include "gateway/http/framing.h"

namespace turnstile::gateway {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

namespace {

// A body that was larger than this gives its memory back before the next request.
constexpr std::size_t kKeptBodyBytes = std::size_t{64} << 10;

Method method_of(http::verb verb) {
  switch (verb) {
    case http::verb::get: return Method::Get;
    case http::verb::post: return Method::Post;
    case http::verb::head: return Method::Head;
    case http::verb::options: return Method::Options;
    default: return Method::Other;
  }
}

bool equals_in_any_case(std::string_view text, std::string_view other) {
  return beast::iequals(beast::string_view(text.data(), text.size()),
                        beast::string_view(other.data(), other.size()));
}

// In what the parser leaves unread, a line of the framing that is not complete.
bool has_bare_line_feed(std::string_view unread) {
  for (std::size_t at = unread.find('\n'); at != std::string_view::npos;
       at = unread.find('\n', at + 1)) {
    if (at == 0 || unread[at - 1] != '\r') return true;
  }
  return false;
}

// Beast's parser with the callbacks that keep what the gateway needs.
class Parser final : public http::basic_parser<true> {
 public:
  Parser(RequestHead& head, std::string& body, const LimitsConfig& limits)
      : head_(head), body_(body), limits_(limits) {
    eager(false);
    header_limit(static_cast<std::uint32_t>(limits.max_header_bytes));
    body_limit(boost::none);  // checked below, where the answer can say which limit
  }

  const std::optional<ApiError>& refused() const { return refused_; }

 private:
  using View = beast::string_view;

  void on_request_impl(http::verb verb, View, View target, int version,
                       beast::error_code& error) override {
    error = {};
    head_.method = method_of(verb);
    head_.target.assign(target.data(), target.size());
    head_.is_http_1_0 = version == 10;
  }

  void on_response_impl(int, View, int, beast::error_code&) override {
    assert(false && "a request parser sees no response");
  }

  void on_field_impl(http::field name, View text, View value, beast::error_code& error) override {
    error = {};
    if (is_header_done()) return refuse(error, "Trailers are not accepted.");
    switch (name) {
      case http::field::host: return keep(head_.host, value);
      case http::field::origin: head_.has_origin = true; return;
      case http::field::authorization: return keep(head_.authorization, value);
      case http::field::content_type: return keep(head_.content_type, value);
      case http::field::content_encoding: return keep(head_.content_encoding, value);
      // A client of HTTP/1.0 knows no interim answer (RFC 9110 section 10.1.1).
      case http::field::expect: head_.expects_continue = !head_.is_http_1_0; return;
      case http::field::unknown: break;
      default: return;
    }
    const std::string_view unknown(text.data(), text.size());
    if (equals_in_any_case(unknown, "x-turnstile-class")) {
      keep(head_.service_class, value);
    } else if (equals_in_any_case(unknown, "x-turnstile-deadline-ms")) {
      keep(head_.deadline_ms, value);
    } else if (equals_in_any_case(unknown, "x-admission-ticket")) {
      keep(head_.ticket, value);
    } else if (equals_in_any_case(unknown, "x-request-id")) {
      keep(head_.client_request_id, value);
    }
  }

  void on_header_impl(beast::error_code& error) override { error = {}; }

  void on_body_init_impl(const boost::optional<std::uint64_t>&,
                         beast::error_code& error) override {
    error = {};
  }

  std::size_t on_body_impl(View bytes, beast::error_code& error) override {
    return take(bytes, error);
  }

  void on_chunk_header_impl(std::uint64_t, View extensions, beast::error_code& error) override {
    error = {};
    if (!extensions.empty()) return refuse(error, "Chunk extensions are not accepted.");
    if (++chunks_ > limits_.max_body_chunks) {
      refuse(error, "The body comes in more chunks than are accepted.");
    }
  }

  std::size_t on_chunk_body_impl(std::uint64_t, View bytes, beast::error_code& error) override {
    return take(bytes, error);
  }

  void on_finish_impl(beast::error_code& error) override { error = {}; }

  static void keep(std::string& where, View value) { where.assign(value.data(), value.size()); }

  std::size_t take(View bytes, beast::error_code& error) {
    error = {};
    if (body_.size() + bytes.size() > limits_.max_body_bytes) {
      refused_ = make_error(ApiCode::BodyTooLarge, "The body is over the limit of " +
                                                       std::to_string(limits_.max_body_bytes) +
                                                       " bytes.");
      error = http::error::body_limit;
      return 0;
    }
    body_.append(bytes.data(), bytes.size());
    return bytes.size();
  }

  void refuse(beast::error_code& error, std::string_view why) {
    refused_ = make_error(ApiCode::BadRequest, std::string(why));
    error = http::error::bad_field;
  }

  RequestHead& head_;
  std::string& body_;
  const LimitsConfig& limits_;
  std::uint32_t chunks_ = 0;
  std::optional<ApiError> refused_;
};

}  // namespace

struct HttpReader::State {
  explicit State(const LimitsConfig& used_limits) : limits(used_limits), guard(used_limits) {
    parser.emplace(head, body, limits);
  }

  // Feeds the parser and tells how it went. Beast asks for more by an error of its own.
  HttpReader::Step put(std::string_view bytes) {
    beast::error_code error;
    const std::size_t consumed = parser->put(asio::buffer(bytes.data(), bytes.size()), error);
    if (!error || error == http::error::need_more) return {consumed, false, std::nullopt};
    if (parser->refused()) return {consumed, false, parser->refused()};
    return {consumed, false,
            make_error(ApiCode::BadRequest, "The request is not well-formed HTTP/1.1.")};
  }

  const LimitsConfig& limits;
  HeaderGuard guard;
  RequestHead head;
  std::string body;
  std::optional<Parser> parser;
};

HttpReader::HttpReader(const LimitsConfig& limits) : state_(std::make_unique<State>(limits)) {}
HttpReader::~HttpReader() = default;

HttpReader::Step HttpReader::read_head(std::string_view bytes) {
  HeaderGuard::Verdict verdict = state_->guard.inspect(bytes);
  if (verdict.refused) return {0, false, std::move(verdict.refused)};
  if (verdict.header_bytes == 0) return {};
  Step step = state_->put(bytes.substr(0, verdict.header_bytes));
  if (step.refused) return step;
  Parser& parser = *state_->parser;
  if (!parser.is_header_done()) {
    step.refused = make_error(ApiCode::BadRequest, "The request is not well-formed HTTP/1.1.");
    return step;
  }
  RequestHead& head = state_->head;
  head.keep_alive = parser.keep_alive();
  head.is_chunked = parser.chunked();
  if (parser.content_length()) head.content_length = *parser.content_length();
  parser.eager(true);
  step.consumed = verdict.header_bytes;
  step.done = true;
  return step;
}

HttpReader::Step HttpReader::read_body(std::string_view bytes) {
  Step all;
  while (!all.refused && !state_->parser->is_done()) {
    Step step = state_->put(bytes.substr(all.consumed));
    all.consumed += step.consumed;
    all.refused = std::move(step.refused);
    if (step.consumed == 0) break;
  }
  all.done = !all.refused && state_->parser->is_done();
  // The parser waits for a carriage return that never comes, until the time for the body is over.
  if (!all.done && !all.refused && state_->head.is_chunked &&
      has_bare_line_feed(bytes.substr(all.consumed))) {
    all.refused = make_error(ApiCode::BadRequest,
                             "A line of the body's framing ends without a carriage return.");
  }
  // A full buffer of which the parser takes nothing would stay full until the time is over.
  if (!all.done && !all.refused &&
      bytes.size() - all.consumed >= state_->limits.read_buffer_bytes) {
    all.refused = make_error(ApiCode::BadRequest,
                             "The body's framing has a line that is longer than is accepted.");
  }
  return all;
}

const RequestHead& HttpReader::head() const { return state_->head; }
std::string& HttpReader::body() { return state_->body; }

void HttpReader::next_request() {
  RequestHead& head = state_->head;
  for (std::string* text :
       {&head.target, &head.host, &head.authorization, &head.content_type, &head.content_encoding,
        &head.service_class, &head.deadline_ms, &head.client_request_id, &head.ticket}) {
    text->clear();
  }
  head.method = Method::Other;
  head.is_http_1_0 = false;
  head.keep_alive = true;
  head.expects_continue = false;
  head.has_origin = false;
  head.content_length.reset();
  head.is_chunked = false;
  state_->body.clear();
  if (state_->body.capacity() > kKeptBodyBytes) state_->body.shrink_to_fit();
  state_->guard.reset();
  state_->parser.emplace(head, state_->body, state_->limits);
}

}  // namespace turnstile::gateway
