using System;
using System.Collections.Generic;

namespace Scoregate
{
    /// <summary>An answer as it came over the wire.</summary>
    public sealed class WireAnswer
    {
        private readonly Dictionary<string, string> headers =
            new Dictionary<string, string>(StringComparer.OrdinalIgnoreCase);

        /// <summary>Make an answer. <paramref name="body"/> is empty if it was streamed.</summary>
        public WireAnswer(int status, IEnumerable<KeyValuePair<string, string>> headers, byte[] body)
        {
            Status = status;
            Body = body ?? new byte[0];
            foreach (var header in headers)
            {
                this.headers[header.Key] = header.Value;
            }
        }

        /// <summary>The HTTP status.</summary>
        public int Status { get; }

        /// <summary>The body.</summary>
        public byte[] Body { get; }

        /// <summary>True for 200 to 299.</summary>
        public bool IsSuccess => Status >= 200 && Status < 300;

        /// <summary>Return a header field, in whatever case it was sent, or null.</summary>
        public string Header(string name) => headers.TryGetValue(name, out var value) ? value : null;

        /// <summary>Return the media type without its parameters, in lower case; empty without one.</summary>
        public string MediaType() => MediaTypeOf(Header("Content-Type"));

        internal static string MediaTypeOf(string contentType) =>
            (contentType ?? "").Split(';')[0].Trim().ToLowerInvariant();
    }
}
