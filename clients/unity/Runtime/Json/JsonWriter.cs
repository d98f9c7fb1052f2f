using System;
using System.Globalization;
using System.Text;

namespace Scoregate
{
    /// <summary>Writes compact JSON: no spaces, members in their order, no escapes but the needed ones.</summary>
    public static class JsonWriter
    {
        /// <summary>Return the text of a value.</summary>
        public static string Write(JsonValue value)
        {
            var text = new StringBuilder();
            Append(text, value);
            return text.ToString();
        }

        /// <summary>Return the UTF-8 bytes of a value.</summary>
        public static byte[] WriteBytes(JsonValue value) => Encoding.UTF8.GetBytes(Write(value));

        private static void Append(StringBuilder text, JsonValue value)
        {
            switch (value.Kind)
            {
                case JsonKind.Null:
                    text.Append("null");
                    break;
                case JsonKind.Boolean:
                    text.Append(value.AsBool() ? "true" : "false");
                    break;
                case JsonKind.Number:
                    text.Append(value.NumberText());
                    break;
                case JsonKind.Text:
                    AppendText(text, value.AsText());
                    break;
                case JsonKind.List:
                    AppendList(text, value);
                    break;
                default:
                    AppendObject(text, value);
                    break;
            }
        }

        private static void AppendList(StringBuilder text, JsonValue value)
        {
            text.Append('[');
            for (var at = 0; at < value.Items.Count; at++)
            {
                if (at > 0)
                {
                    text.Append(',');
                }

                Append(text, value.Items[at]);
            }

            text.Append(']');
        }

        private static void AppendObject(StringBuilder text, JsonValue value)
        {
            text.Append('{');
            for (var at = 0; at < value.Members.Count; at++)
            {
                if (at > 0)
                {
                    text.Append(',');
                }

                AppendText(text, value.Members[at].Key);
                text.Append(':');
                Append(text, value.Members[at].Value);
            }

            text.Append('}');
        }

        private static void AppendText(StringBuilder text, string content)
        {
            text.Append('"');
            for (var at = 0; at < content.Length; at++)
            {
                var unit = content[at];
                if (char.IsSurrogate(unit))
                {
                    if (at + 1 >= content.Length || !char.IsSurrogatePair(unit, content[at + 1]))
                    {
                        throw new ArgumentException("half of a surrogate pair cannot be sent");
                    }

                    text.Append(unit).Append(content[++at]);
                }
                else
                {
                    AppendUnit(text, unit);
                }
            }

            text.Append('"');
        }

        private static void AppendUnit(StringBuilder text, char unit)
        {
            var at = "\"\\\b\f\n\r\t".IndexOf(unit);
            if (at >= 0)
            {
                text.Append('\\').Append("\"\\bfnrt"[at]);
            }
            else if (unit < ' ')
            {
                text.Append("\\u").Append(((int)unit).ToString("x4", CultureInfo.InvariantCulture));
            }
            else
            {
                text.Append(unit);
            }
        }
    }
}
