// GoogleTest and what it includes, compiled once for each large test program (Meson's cpp_pch): it is
// most of what a compiler reads in a test. It only saves time; a test still includes what it uses. As
// the source of a precompiled header it has no #pragma once.
#include <gtest/gtest.h>
