// The program: arguments to a verb, a verb to an exit code.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "gateway/clock.h"
#include "gateway/command_line.h"
#include "gateway/ids.h"
#include "gateway/verbs/run.h"

int main(int argc, char** argv) {
  using namespace turnstile::gateway;
  // What is closed stays so: no file or socket gets the number of a standard stream.
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    // An answer that goes nowhere is an error, a warning is not.
    ::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
  // A closed pipe or socket is an error of that write, never the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  std::ios::sync_with_stdio(false);
  try {
    const auto command = parse_command_line(std::vector<std::string>(argv + 1, argv + argc));
    if (!command) {
      const UsageText& usage = command.error();
      std::ostream& to = usage.code == ExitCode::Done ? std::cout : std::cerr;
      to << usage.text << std::flush;
      return static_cast<int>(to ? usage.code : ExitCode::Environment);
    }
    const SystemClock clock;
    SystemRandom random;
    const Surroundings around{std::cout, std::cerr, clock, random};
    return static_cast<int>(run(*command, around));
  } catch (const std::bad_alloc&) {
    std::cerr << "turnstile: the system has not got the memory that this takes.\n";
    return static_cast<int>(ExitCode::Environment);
  } catch (const std::system_error& error) {
    std::cerr << "turnstile: the system refuses a thread or another resource: " << error.what()
              << ".\n";
    return static_cast<int>(ExitCode::Environment);
  } catch (const std::exception& error) {
    std::cerr << "turnstile: " << error.what() << '\n';
    return static_cast<int>(ExitCode::Environment);
  }
}
