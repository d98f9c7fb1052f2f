namespace Scoregate
{
    /// <summary>The number of players that a player follows now.</summary>
    public sealed class Following : Document
    {
        internal Following(JsonValue json) : base(json)
        {
            Player = json["player"].AsText();
            Total = json["total"].AsLong();
        }

        /// <summary>Who follows them.</summary>
        public string Player { get; }

        /// <summary>Their number.</summary>
        public long Total { get; }
    }
}
