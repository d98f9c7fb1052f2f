using System;
using System.Collections.Generic;
using System.Globalization;

namespace Scoregate
{
    /// <summary>An answer of the gateway. Members that this version does not know are in <see cref="Json"/>.</summary>
    public abstract class Document
    {
        /// <summary>Keep the answer, which must be an object.</summary>
        protected Document(JsonValue json)
        {
            Json = json.AsObject();
        }

        /// <summary>The answer as it came.</summary>
        public JsonValue Json { get; }

        /// <summary>Return the compact JSON of the answer. It may hold a token or a key.</summary>
        public string ToJson() => Json.ToString();

        internal static IReadOnlyList<T> ListOf<T>(JsonValue list, Func<JsonValue, T> read)
        {
            var items = new List<T>();
            foreach (var item in list.AsList())
            {
                items.Add(read(item));
            }

            return items;
        }

        internal static IReadOnlyList<T> ListOrEmpty<T>(JsonValue list, Func<JsonValue, T> read) =>
            list.IsNull ? new T[0] : ListOf(list, read);

        internal static byte[] BytesOf(JsonValue base64)
        {
            try
            {
                return Convert.FromBase64String(base64.AsText());
            }
            catch (FormatException)
            {
                throw new JsonException("base64 was expected");
            }
        }

        internal static ulong WordOf(JsonValue number)
        {
            if (ulong.TryParse(number.AsText(), NumberStyles.None, CultureInfo.InvariantCulture, out var word))
            {
                return word;
            }

            throw new JsonException("a number of 64 bits was expected");
        }

        internal static uint CountOf(JsonValue number)
        {
            var count = number.AsLong();
            if (count < 0 || count > uint.MaxValue)
            {
                throw new JsonException("a number of 32 bits was expected");
            }

            return (uint)count;
        }
    }
}
