// limits_config.h: [limits] of turnstile.toml, with the default of each.
//
// Apart from config.h, so that what obeys limits need not know how files are read. Ranges and names
// in the file: gateway/config/config_table.cpp.
//
// Thread: any; a value.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace turnstile::gateway {

using Milliseconds = std::chrono::milliseconds;

// What the wire, a connection, a body and a stream may cost. 0 = no limit where it says so.
struct LimitsConfig {
  // Wire.
  std::size_t read_buffer_bytes = 64 << 10;
  std::size_t max_header_bytes = 16 << 10;        // request line and header fields together
  std::size_t max_header_field_bytes = 8 << 10;
  std::uint32_t max_header_count = 64;
  std::size_t max_target_bytes = 2 << 10;
  std::uint32_t max_body_chunks = 16'384;
  std::size_t max_body_bytes = 4 << 20;
  std::size_t max_team_inflight_body_bytes = 64 << 20;
  std::size_t max_inflight_body_bytes = 512 << 20;
  std::uint32_t max_json_depth = 32;
  std::uint32_t max_json_keys = 10'000;
  std::uint32_t max_messages = 2'048;
  std::size_t max_prompt_bytes = 1 << 20;
  // Connections.
  std::uint32_t max_connections = 4'096;              // 0: no limit
  std::uint32_t max_connections_per_address = 256;    // 0: no limit; loopback is exempt
  std::uint32_t max_handshakes = 64;                  // TLS handshakes at a time; the oldest goes
  std::uint32_t max_requests_per_connection = 1'000;  // then Connection: close; 0: no limit
  Milliseconds handshake_timeout{5'000};              // accept to TLS done
  Milliseconds header_timeout{10'000};                // first byte to the end of the header
  Milliseconds body_timeout{30'000};                  // plus size / body_bytes_per_second
  std::size_t body_bytes_per_second = 64 << 10;  // also of a client that takes a whole answer
  Milliseconds write_stall_timeout{15'000};  // no byte accepted by the peer
  Milliseconds request_timeout{600'000};     // whole request
  Milliseconds keep_alive_timeout{30'000};   // idle between requests
  Milliseconds accept_error_wait{100};
  // What is read of a body after its request was refused, so that the client sees the answer.
  std::size_t refused_body_bytes = 256 << 10;
  Milliseconds refused_body_timeout{2'000};
  // Streams.
  std::size_t send_buffer_bytes = 64 << 10;   // the socket's; small, so that a slow reader shows
  std::size_t stream_soft_bytes = 64 << 10;   // unsent for over stream_soft_time: client_slow
  Milliseconds stream_soft_time{5'000};
  std::size_t stream_hard_bytes = 256 << 10;  // beside what one step brought: client_slow at once
  Milliseconds stream_wait_comment{15'000};   // ": wait" after so much silence
};

}  // namespace turnstile::gateway
