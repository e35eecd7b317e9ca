// run.h: one function per verb of the command line; main() picks the overload.
//
// A verb prints its answer to `out`, and everything for people to `err`: an error is one sentence
// that names the file or flag and the remedy. It returns the exit code and never ends the program.
//
// An answer that could not be written whole ends with exit code 3.
//
// Thread: main. Tests call the verbs as functions, with a manual clock and string streams.
#pragma once

#include "gateway/command_line.h"
#include "gateway/exit_code.h"
#include "gateway/surroundings.h"

namespace turnstile::gateway {

ExitCode run(const InitOptions& options, Surroundings around);
ExitCode run(const ServeOptions& options, Surroundings around);
ExitCode run(const PolicyCheckOptions& options, Surroundings around);
ExitCode run(const KeysCreateOptions& options, Surroundings around);
ExitCode run(const KeysListOptions& options, Surroundings around);
ExitCode run(const KeysRevokeOptions& options, Surroundings around);
ExitCode run(const AuditVerifyOptions& options, Surroundings around);
ExitCode run(const AuditShowOptions& options, Surroundings around);
ExitCode run(const ModelInfoOptions& options, Surroundings around);
ExitCode run(const VersionOptions& options, Surroundings around);

// Whichever it is, and whether its answer was written.
ExitCode run(const Command& command, Surroundings around);

}  // namespace turnstile::gateway
