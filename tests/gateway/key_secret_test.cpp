// The text of a key and its hash.
#include "gateway/keys/key_secret.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace turnstile::gateway {
namespace {

TEST(KeySecret, HasItsFormAndItsOwnCheckCharacters) {
  SeededRandom random(1);
  std::set<std::string> seen;
  for (int i = 0; i < 200; ++i) {
    const std::string secret = make_secret(random);
    EXPECT_EQ(secret.size(), 50U);
    EXPECT_TRUE(secret.starts_with("gw_"));
    EXPECT_EQ(secret[11], '_');
    ASSERT_TRUE(public_id_of(secret));
    EXPECT_EQ(*public_id_of(secret), secret.substr(3, 8));
    EXPECT_TRUE(seen.insert(secret).second);
  }
}

// CRC-32 of that text is 0x3641970A, which is 0zbOKg in base 62; computed with zlib, so that
// another implementation of the format agrees.
TEST(KeySecret, CheckCharactersAreCrc32InBase62) {
  const std::string body = "gw_00000000_" + std::string(32, '0');
  EXPECT_TRUE(public_id_of(body + "0zbOKg"));
  EXPECT_FALSE(public_id_of(body + "0zbOKh"));
}

TEST(KeySecret, AnySingleChangedCharacterIsNoticed) {
  SeededRandom random(2);
  const std::string secret = make_secret(random);
  for (std::size_t i = 0; i < secret.size(); ++i) {
    for (const char c : {'0', 'Z', 'a', '_', ' ', '\0', '\xC3'}) {
      if (secret[i] == c) continue;
      std::string typo = secret;
      typo[i] = c;
      EXPECT_FALSE(public_id_of(typo)) << i;
    }
  }
  EXPECT_FALSE(public_id_of(secret.substr(1)));
  EXPECT_FALSE(public_id_of(secret + "0"));
  EXPECT_FALSE(public_id_of(""));
}

// RFC 4231, test case 2.
TEST(KeySecret, HashIsHmacSha256AndStartsOverForEachText) {
  KeyHasher hasher("Jefe");
  const std::string expected =
      "hmac-sha256:5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
  EXPECT_EQ(hash_text(hasher.hash("what do ya want for nothing?")), expected);
  hasher.hash("something else");
  EXPECT_EQ(hash_text(hasher.hash("what do ya want for nothing?")), expected);
  EXPECT_EQ(hash_text(*parse_hash(expected)), expected);
  EXPECT_FALSE(parse_hash(expected.substr(0, 70)));
  EXPECT_FALSE(parse_hash("sha256:" + expected.substr(12)));
}

}  // namespace
}  // namespace turnstile::gateway
