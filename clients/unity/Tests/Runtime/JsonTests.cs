using System.Text;
using NUnit.Framework;

namespace Scoregate.Tests
{
    public sealed class JsonTests
    {
        [Test]
        public void WhatIsReadIsWrittenAgainToTheByte()
        {
            const string Text = "{\"a\":[1,-0.5,1e3,true,false,null,\"\\\"\\\\\\n\\u0001\u00fc\U0001f3ae\"],\"b\":{},\"c\":[]}";
            Assert.AreEqual(Text, JsonReader.Read(Encoding.UTF8.GetBytes(Text)).ToString());
        }

        [Test]
        public void TextsThatHaveSeveralMeaningsAreRefused()
        {
            var wrong = new[]
            {
                "", " ", "{", "[1,]", "{\"a\":1,}", "{\"a\":1,\"a\":1}", "01", "+1", ".5", "1.", "1e", "--1", "NaN", "1e999",
                "Infinity", "tru", "nulll", "'a'", "\"\\x\"", "\"\\u12g4\"", "\"\\ud800\"", "\"\\udc00\\ud800\"", "\"a\nb\"",
                "[1] 2", "{\"a\" 1}", "{a:1}", "\u00a01", "\ufeff1", "// no\n1", "[1 2]", "\"", "-",
            };
            foreach (var text in wrong)
            {
                Assert.Throws<JsonException>(() => JsonReader.Read(text), text);
            }

            Assert.Throws<JsonException>(() => JsonReader.Read(new byte[] { 0x22, 0xff, 0x22 }));
        }

        [Test]
        public void DepthAndSizeAreBounded()
        {
            Assert.AreEqual(JsonKind.List, JsonReader.Read(Nested(32)).Kind);
            Assert.Throws<JsonException>(() => JsonReader.Read(Nested(33)));
            Assert.Throws<JsonException>(() => JsonReader.Read(Nested(1000000)));
            Assert.Throws<JsonException>(() => JsonReader.Read(new byte[JsonReader.LargestBytes + 1]));
        }

        [Test]
        public void AMemberThatIsNotThereIsNull()
        {
            var json = JsonReader.Read("{\"a\":7}");
            Assert.IsTrue(json["b"]["c"].IsNull);
            Assert.AreEqual(0, json["b"].Members.Count);
            Assert.Throws<JsonException>(() => json["a"].AsText());
            Assert.Throws<JsonException>(() => JsonReader.Read("1.0").AsLong());
            Assert.AreEqual(long.MinValue, JsonReader.Read("-9223372036854775808").AsLong());
        }

        private static string Nested(int depth) => new string('[', depth) + new string(']', depth);
    }
}
