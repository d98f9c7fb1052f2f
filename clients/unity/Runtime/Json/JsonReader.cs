using System;
using System.Collections.Generic;
using System.Globalization;
using System.Text;

namespace Scoregate
{
    /// <summary>
    /// Reads JSON strictly (RFC 8259): UTF-8 without a byte order mark, no duplicate names, no halves of surrogate
    /// pairs, nothing after the value, and bounds on size and depth, so that no answer can exhaust a game.
    /// </summary>
    public sealed class JsonReader
    {
        /// <summary>The most bytes of a text.</summary>
        public const int LargestBytes = 8 * 1024 * 1024;

        /// <summary>The most arrays and objects inside each other.</summary>
        public const int DeepestLevel = 32;

        private const int LongestNumber = 64;
        private static readonly UTF8Encoding Strict = new UTF8Encoding(false, true);

        private readonly string text;
        private int at;
        private int level;

        private JsonReader(string text)
        {
            this.text = text;
        }

        /// <summary>Return the value of UTF-8 bytes.</summary>
        /// <exception cref="JsonException">They are not JSON, too many or too deep.</exception>
        public static JsonValue Read(byte[] bytes)
        {
            if (bytes.Length > LargestBytes)
            {
                throw new JsonException("too large");
            }

            try
            {
                return Read(Strict.GetString(bytes));
            }
            catch (ArgumentException)
            {
                throw new JsonException("not UTF-8");
            }
        }

        /// <summary>Return the value of a text.</summary>
        /// <exception cref="JsonException">It is not JSON, too large or too deep.</exception>
        public static JsonValue Read(string text)
        {
            if (text.Length > LargestBytes)
            {
                throw new JsonException("too large");
            }

            var reader = new JsonReader(text);
            reader.SkipSpace();
            var value = reader.Value();
            reader.SkipSpace();
            if (reader.at != text.Length)
            {
                throw reader.Wrong("the end");
            }

            return value;
        }

        private JsonValue Value()
        {
            switch (Peek())
            {
                case '{':
                    return Nested(Object);
                case '[':
                    return Nested(List);
                case '"':
                    return JsonValue.Of(Text());
                case 't':
                    return Word("true", JsonValue.Of(true));
                case 'f':
                    return Word("false", JsonValue.Of(false));
                case 'n':
                    return Word("null", JsonValue.Null);
                default:
                    return Number();
            }
        }

        private JsonValue Nested(Func<JsonValue> read)
        {
            level++;
            if (level > DeepestLevel)
            {
                throw new JsonException("too deep");
            }

            var value = read();
            level--;
            return value;
        }

        private JsonValue Object()
        {
            var members = new List<KeyValuePair<string, JsonValue>>();
            var names = new HashSet<string>(StringComparer.Ordinal);
            at++;
            SkipSpace();
            if (Take('}'))
            {
                return JsonValue.Of(members);
            }

            do
            {
                SkipSpace();
                var name = Text();
                if (!names.Add(name))
                {
                    throw new JsonException("a name appears twice");
                }

                SkipSpace();
                Expect(':');
                SkipSpace();
                members.Add(new KeyValuePair<string, JsonValue>(name, Value()));
                SkipSpace();
            }
            while (Take(','));
            Expect('}');
            return JsonValue.Of(members);
        }

        private JsonValue List()
        {
            var items = new List<JsonValue>();
            at++;
            SkipSpace();
            if (Take(']'))
            {
                return JsonValue.Of(items);
            }

            do
            {
                SkipSpace();
                items.Add(Value());
                SkipSpace();
            }
            while (Take(','));
            Expect(']');
            return JsonValue.Of(items);
        }

        private string Text()
        {
            Expect('"');
            var content = new StringBuilder();
            while (true)
            {
                var unit = Next();
                if (unit == '"')
                {
                    break;
                }

                if (unit < ' ')
                {
                    throw Wrong("no control character");
                }

                content.Append(unit == '\\' ? Escaped() : unit);
            }

            return Whole(content.ToString());
        }

        private char Escaped()
        {
            var unit = Next();
            if (unit == 'u')
            {
                return HexUnit();
            }

            var which = "\"\\/bfnrt".IndexOf(unit);
            if (which < 0)
            {
                throw Wrong("an escape");
            }

            return "\"\\/\b\f\n\r\t"[which];
        }

        private char HexUnit()
        {
            var number = 0;
            for (var digit = 0; digit < 4; digit++)
            {
                var value = Hex.ValueOf(Next());
                if (value < 0)
                {
                    throw Wrong("four hexadecimal digits");
                }

                number = (number << 4) | value;
            }

            return (char)number;
        }

        private JsonValue Number()
        {
            var start = at;
            Take('-');
            if (!Take('0'))
            {
                Digits();
            }

            if (Take('.'))
            {
                Digits();
            }

            if (Take('e') || Take('E'))
            {
                if (!Take('+'))
                {
                    Take('-');
                }

                Digits();
            }

            var number = text.Substring(start, at - start);
            if (number.Length > LongestNumber || !IsFinite(number))
            {
                throw new JsonException("a number is too long");
            }

            return JsonValue.OfNumber(number);
        }

        private static bool IsFinite(string number)
        {
            // Frameworks before .NET Core 3 refuse what is too large, later ones return infinity.
            return double.TryParse(number, NumberStyles.Float, CultureInfo.InvariantCulture, out var value)
                && !double.IsInfinity(value);
        }

        private void Digits()
        {
            var start = at;
            while (at < text.Length && text[at] >= '0' && text[at] <= '9')
            {
                at++;
            }

            if (at == start)
            {
                throw Wrong("a digit");
            }
        }

        private JsonValue Word(string word, JsonValue value)
        {
            if (string.CompareOrdinal(text, at, word, 0, word.Length) != 0)
            {
                throw Wrong(word);
            }

            at += word.Length;
            return value;
        }

        private static string Whole(string content)
        {
            for (var at = 0; at < content.Length; at++)
            {
                if (!char.IsSurrogate(content[at]))
                {
                    continue;
                }

                if (at + 1 >= content.Length || !char.IsSurrogatePair(content[at], content[at + 1]))
                {
                    throw new JsonException("half of a surrogate pair");
                }

                at++;
            }

            return content;
        }

        private void SkipSpace()
        {
            while (at < text.Length && " \t\r\n".IndexOf(text[at]) >= 0)
            {
                at++;
            }
        }

        private bool Take(char unit)
        {
            if (at >= text.Length || text[at] != unit)
            {
                return false;
            }

            at++;
            return true;
        }

        private void Expect(char unit)
        {
            if (!Take(unit))
            {
                throw Wrong("'" + unit + "'");
            }
        }

        private char Peek() => at < text.Length ? text[at] : '\0';

        private char Next()
        {
            if (at >= text.Length)
            {
                throw Wrong("more");
            }

            return text[at++];
        }

        private JsonException Wrong(string expected) => new JsonException(expected + " was expected at " + at);
    }
}
