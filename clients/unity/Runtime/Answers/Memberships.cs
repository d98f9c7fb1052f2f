namespace Scoregate
{
    /// <summary>A player's groups on a board.</summary>
    public sealed class Memberships : Document
    {
        internal Memberships(JsonValue json) : base(json)
        {
            Board = json["board"].AsText();
            Player = json["player"].AsText();
            Segments = json["segments"];
        }

        /// <summary>The board.</summary>
        public string Board { get; }

        /// <summary>The player.</summary>
        public string Player { get; }

        /// <summary>The group in each segment.</summary>
        public JsonValue Segments { get; }
    }
}
