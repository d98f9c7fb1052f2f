using System.Collections.Generic;

namespace Scoregate
{
    /// <summary>Builds an object, member by member, in the order in which they are added.</summary>
    public sealed class JsonObject
    {
        private readonly List<KeyValuePair<string, JsonValue>> members = new List<KeyValuePair<string, JsonValue>>();

        /// <summary>Add a member.</summary>
        public JsonObject Add(string name, JsonValue value)
        {
            members.Add(new KeyValuePair<string, JsonValue>(name, value ?? JsonValue.Null));
            return this;
        }

        /// <summary>Add a string, or null.</summary>
        public JsonObject Add(string name, string value) => Add(name, JsonValue.Of(value));

        /// <summary>Add a whole number.</summary>
        public JsonObject Add(string name, long value) => Add(name, JsonValue.Of(value));

        /// <summary>Add a string if there is one; add nothing for null.</summary>
        public JsonObject AddIfGiven(string name, string value) => value == null ? this : Add(name, value);

        /// <summary>Return the object.</summary>
        public JsonValue Build() => JsonValue.Of(members.ToArray());
    }
}
