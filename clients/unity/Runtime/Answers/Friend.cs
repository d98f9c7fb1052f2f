namespace Scoregate
{
    /// <summary>A player whom another one follows.</summary>
    public sealed class Friend : Document
    {
        internal Friend(JsonValue json) : base(json)
        {
            Player = json["player"].AsText();
            Name = json["name"].AsText();
        }

        /// <summary>The player.</summary>
        public string Player { get; }

        /// <summary>The name as shown.</summary>
        public string Name { get; }
    }
}
