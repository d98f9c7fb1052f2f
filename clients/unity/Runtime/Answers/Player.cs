namespace Scoregate
{
    /// <summary>A player, and the token that acts for them. Keep it safe: nobody gives it again.</summary>
    public sealed class Player : Document
    {
        internal Player(JsonValue json) : base(json)
        {
            Id = json["player"].AsText();
            Name = json["name"].AsText();
            Token = json["token"].AsText();
        }

        /// <summary>The player's id.</summary>
        public string Id { get; }

        /// <summary>The name as shown.</summary>
        public string Name { get; }

        /// <summary>The bearer token.</summary>
        public string Token { get; }
    }
}
