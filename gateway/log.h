// log.h: sentences for whoever runs the server, on standard error.
//
//   2026-08-25T09:15:03.000123Z warning: keys.toml:3:1: ... The keys read before stay in use.
//
// Not a record: what must be kept goes to events.jsonl, requests.jsonl or the audit log. A text
// never holds a prompt, a completion or a key.
//
// Thread: any; lines of several threads do not mix, and nobody waits for who reads them: a line
// that standard error does not take at once is dropped, and the next one that it takes stands
// behind a line that says how many were. A standard error that is closed is ignored.
#pragma once

#include <string_view>

namespace turnstile::gateway {

void log_info(std::string_view sentence);
void log_warning(std::string_view sentence);
void log_error(std::string_view sentence);

}  // namespace turnstile::gateway
