namespace Scoregate
{
    /// <summary>What a player has on one of the boards that were asked for.</summary>
    public sealed class BoardEntry : Document
    {
        internal BoardEntry(JsonValue json) : base(json)
        {
            Board = json["board"].AsText();
            Status = json["status"].AsText();
            Window = json["window"].AsTextOrNull();
            Standing = json["standing"].IsNull ? null : new Standing(json["standing"]);
        }

        /// <summary>The board.</summary>
        public string Board { get; }

        /// <summary>ranked, unranked, no-board, no-window or rebuilding.</summary>
        public string Status { get; }

        /// <summary>The window, if there is one.</summary>
        public string Window { get; }

        /// <summary>The standing of a ranked player, or null.</summary>
        public Standing Standing { get; }
    }
}
