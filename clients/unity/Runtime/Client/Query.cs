using System;
using System.Collections.Generic;
using System.Globalization;
using System.Text;

namespace Scoregate
{
    /// <summary>Builds paths and queries. What is null is left out.</summary>
    internal sealed class Query
    {
        private readonly StringBuilder text = new StringBuilder();

        internal static string Segment(string value)
        {
            if (string.IsNullOrEmpty(value) || value == "." || value == "..")
            {
                throw new ArgumentException("an id or a name is empty, or has only dots");
            }

            return Uri.EscapeDataString(value);
        }

        internal Query Add(string name, string value)
        {
            if (value == null)
            {
                return this;
            }

            // Commas between ids may stay as they are (RFC 3986, 3.4).
            var escaped = Uri.EscapeDataString(value).Replace("%2C", ",").Replace("%3A", ":");
            text.Append(text.Length == 0 ? '?' : '&').Append(Uri.EscapeDataString(name)).Append('=').Append(escaped);
            return this;
        }

        internal Query Add(string name, long? value) => Add(name, value?.ToString(CultureInfo.InvariantCulture));

        internal Query Add(string name, IReadOnlyCollection<string> values) =>
            values == null || values.Count == 0 ? this : Add(name, string.Join(",", values));

        internal Query AddIf(string name, bool isGiven) => isGiven ? Add(name, "true") : this;

        /// <summary>Return the query with its question mark, empty without parameters.</summary>
        public override string ToString() => text.ToString();
    }
}
