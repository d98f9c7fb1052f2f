namespace Scoregate
{
    /// <summary>Says that a submission is in the ledger and will reach a verdict.</summary>
    public sealed class Receipt : Document
    {
        internal Receipt(JsonValue json) : base(json)
        {
            Submission = json["submission"].AsText();
            Board = json["board"].AsText();
            Player = json["player"].AsText();
            Score = json["score"].AsLong();
            State = json["state"].AsText();
        }

        /// <summary>The submission's id.</summary>
        public string Submission { get; }

        /// <summary>The board.</summary>
        public string Board { get; }

        /// <summary>The player.</summary>
        public string Player { get; }

        /// <summary>The score.</summary>
        public long Score { get; }

        /// <summary>The state that it began with.</summary>
        public string State { get; }
    }
}
