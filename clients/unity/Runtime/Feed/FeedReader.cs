using System;
using System.Collections.Generic;
using System.Text;

namespace Scoregate
{
    /// <summary>
    /// Reads an event stream (the HTML standard, "server-sent events") from pieces of any size. Its memory is bounded.
    /// </summary>
    internal sealed class FeedReader
    {
        private const int LongestLine = 1024 * 1024;
        private static readonly UTF8Encoding Strict = new UTF8Encoding(false, true);

        private readonly Action<FeedEvent> onEvent;
        private readonly List<byte> line = new List<byte>();
        private bool wasReturn;
        private string kind = "";
        private string id;
        private string data;

        internal FeedReader(Action<FeedEvent> onEvent)
        {
            this.onEvent = onEvent;
        }

        /// <summary>Take the next bytes, and tell what they complete.</summary>
        /// <exception cref="JsonException">They are no events of a gateway.</exception>
        internal void Take(byte[] bytes, int length)
        {
            for (var at = 0; at < length; at++)
            {
                var unit = bytes[at];
                var endsReturn = unit == '\n' && wasReturn;
                wasReturn = unit == '\r';
                if (endsReturn)
                {
                    continue;
                }

                if (unit == '\n' || unit == '\r')
                {
                    TakeLine();
                }
                else if (line.Count < LongestLine)
                {
                    line.Add(unit);
                }
                else
                {
                    throw new JsonException("a line of the feed is too long");
                }
            }
        }

        private void TakeLine()
        {
            var text = TextOfLine();
            line.Clear();
            if (text.Length == 0)
            {
                Tell();
                return;
            }

            var colon = text.IndexOf(':');
            var field = colon < 0 ? text : text.Substring(0, colon);
            var value = colon < 0 ? "" : text.Substring(colon + 1);
            value = value.StartsWith(" ", StringComparison.Ordinal) ? value.Substring(1) : value;
            switch (field)
            {
                case "event":
                    kind = value;
                    break;
                case "id":
                    id = value;
                    break;
                case "data":
                    data = data == null ? value : Joined(value);
                    break;
            }
        }

        private string TextOfLine()
        {
            try
            {
                return Strict.GetString(line.ToArray());
            }
            catch (ArgumentException)
            {
                throw new JsonException("the feed is not UTF-8");
            }
        }

        private string Joined(string value)
        {
            if (data.Length + value.Length > LongestLine)
            {
                throw new JsonException("an event of the feed is too long");
            }

            return data + "\n" + value;
        }

        private void Tell()
        {
            if (kind.Length > 0 || id != null)
            {
                onEvent(new FeedEvent(kind, id, JsonReader.Read(data ?? "{}").AsObject()));
            }

            kind = "";
            id = null;
            data = null;
        }
    }
}
