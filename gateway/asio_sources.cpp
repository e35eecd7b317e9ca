// The compiled part of Asio and Beast; every other file sees declarations only
// (BOOST_ASIO_SEPARATE_COMPILATION and BOOST_BEAST_SEPARATE_COMPILATION in meson.build).
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
