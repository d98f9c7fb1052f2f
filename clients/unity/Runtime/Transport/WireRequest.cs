using System;
using System.Collections.Generic;

namespace Scoregate
{
    /// <summary>A request as it goes over the wire.</summary>
    public sealed class WireRequest
    {
        /// <summary>The media type of a feed.</summary>
        public const string EventStream = "text/event-stream";

        private const double SlowestBytesPerS = 32 * 1024;

        /// <summary>Make a request without header fields and body.</summary>
        public WireRequest(string method, Uri url)
        {
            Method = method;
            Url = url;
        }

        /// <summary>The method, in upper case.</summary>
        public string Method { get; }

        /// <summary>The whole URL.</summary>
        public Uri Url { get; }

        /// <summary>The header fields, in order.</summary>
        public List<KeyValuePair<string, string>> Headers { get; } = new List<KeyValuePair<string, string>>();

        /// <summary>The body, or null for none.</summary>
        public byte[] Body { get; set; }

        /// <summary>
        /// Seconds for the whole exchange, besides those that a slow phone takes to send the body; for a streamed answer,
        /// the longest silence.
        /// </summary>
        public double TimeoutS { get; set; } = 15;

        /// <summary>Seconds after which to give up.</summary>
        public double PatienceS => TimeoutS + ((Body?.Length ?? 0) / SlowestBytesPerS);

        /// <summary>The most bytes of an answer that is kept; more are an error.</summary>
        public int MostBytes { get; set; } = JsonReader.LargestBytes;

        /// <summary>
        /// Takes the bytes of an answer of status 200 and type <see cref="EventStream"/> as they come, instead of
        /// keeping them; null to keep them. The array is used again after the call. Returning false ends the exchange.
        /// </summary>
        public Func<byte[], int, bool> OnBytes { get; set; }

        /// <summary>Add a header field.</summary>
        public WireRequest With(string name, string value)
        {
            Headers.Add(new KeyValuePair<string, string>(name, value));
            return this;
        }
    }
}
