using System;
using System.Collections.Generic;
using System.Globalization;

namespace Scoregate
{
    /// <summary>A JSON value. Reading it as another kind than it has raises <see cref="JsonException"/>.</summary>
    public sealed class JsonValue
    {
        private static readonly JsonValue[] NoItems = new JsonValue[0];
        private static readonly KeyValuePair<string, JsonValue>[] NoMembers = new KeyValuePair<string, JsonValue>[0];

        /// <summary>null, which also stands for a member that is not there.</summary>
        public static readonly JsonValue Null = new JsonValue(JsonKind.Null, null, null, null);

        private readonly string text;
        private readonly IReadOnlyList<JsonValue> items;
        private readonly IReadOnlyList<KeyValuePair<string, JsonValue>> members;

        private JsonValue(
            JsonKind kind,
            string text,
            IReadOnlyList<JsonValue> items,
            IReadOnlyList<KeyValuePair<string, JsonValue>> members)
        {
            Kind = kind;
            this.text = text;
            this.items = items ?? NoItems;
            this.members = members ?? NoMembers;
        }

        /// <summary>The kind of this value.</summary>
        public JsonKind Kind { get; }

        /// <summary>True for null and for a member that is not there.</summary>
        public bool IsNull => Kind == JsonKind.Null;

        /// <summary>The items of an array, in order; none for other kinds.</summary>
        public IReadOnlyList<JsonValue> Items => items;

        /// <summary>The members of an object, in order; none for other kinds.</summary>
        public IReadOnlyList<KeyValuePair<string, JsonValue>> Members => members;

        /// <summary>Return the member of that name, or null if there is none.</summary>
        public JsonValue this[string name]
        {
            get
            {
                foreach (var member in members)
                {
                    if (member.Key == name)
                    {
                        return member.Value;
                    }
                }

                return Null;
            }
        }

        /// <summary>Return a string, or null for no text.</summary>
        public static JsonValue Of(string value) =>
            value == null ? Null : new JsonValue(JsonKind.Text, value, null, null);

        /// <summary>Return a whole number.</summary>
        public static JsonValue Of(long value) => OfNumber(value.ToString(CultureInfo.InvariantCulture));

        /// <summary>Return a number with a fraction. It must be finite.</summary>
        public static JsonValue Of(double value)
        {
            if (double.IsNaN(value) || double.IsInfinity(value))
            {
                throw new ArgumentOutOfRangeException(nameof(value));
            }

            return OfNumber(value.ToString("R", CultureInfo.InvariantCulture));
        }

        /// <summary>Return true or false.</summary>
        public static JsonValue Of(bool value) => new JsonValue(JsonKind.Boolean, value ? "true" : "false", null, null);

        /// <summary>Return an array.</summary>
        public static JsonValue Of(IReadOnlyList<JsonValue> items) => new JsonValue(JsonKind.List, null, items, null);

        /// <summary>Return an object.</summary>
        public static JsonValue Of(IReadOnlyList<KeyValuePair<string, JsonValue>> members) =>
            new JsonValue(JsonKind.Object, null, null, members);

        /// <summary>Return the text of a string.</summary>
        public string AsText()
        {
            Require(JsonKind.Text);
            return text;
        }

        /// <summary>Return the text of a string, or null for null.</summary>
        public string AsTextOrNull() => IsNull ? null : AsText();

        /// <summary>Return a whole number: one that is written without fraction and exponent.</summary>
        public long AsLong()
        {
            Require(JsonKind.Number);
            if (long.TryParse(text, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out var number))
            {
                return number;
            }

            throw new JsonException("a whole number was expected");
        }

        /// <summary>Return a whole number, or null for null.</summary>
        public long? AsLongOrNull() => IsNull ? (long?)null : AsLong();

        /// <summary>Return a number.</summary>
        public double AsDouble()
        {
            Require(JsonKind.Number);
            return double.Parse(text, NumberStyles.Float, CultureInfo.InvariantCulture);
        }

        /// <summary>Return a number, or null for null.</summary>
        public double? AsDoubleOrNull() => IsNull ? (double?)null : AsDouble();

        /// <summary>Return true or false.</summary>
        public bool AsBool()
        {
            Require(JsonKind.Boolean);
            return text == "true";
        }

        /// <summary>Return true or false, or null for null.</summary>
        public bool? AsBoolOrNull() => IsNull ? (bool?)null : AsBool();

        /// <summary>Return the items of an array.</summary>
        public IReadOnlyList<JsonValue> AsList()
        {
            Require(JsonKind.List);
            return items;
        }

        /// <summary>Return this value if it is an object.</summary>
        public JsonValue AsObject()
        {
            Require(JsonKind.Object);
            return this;
        }

        /// <summary>Return the compact JSON of this value.</summary>
        public override string ToString() => JsonWriter.Write(this);

        internal static JsonValue OfNumber(string text) => new JsonValue(JsonKind.Number, text, null, null);

        internal string NumberText() => text;

        private void Require(JsonKind kind)
        {
            if (Kind != kind)
            {
                throw new JsonException(kind + " was expected, not " + Kind);
            }
        }
    }
}
