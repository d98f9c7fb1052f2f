namespace Scoregate
{
    /// <summary>
    /// A submission in its state: received, pending, held, promoted, rejected, superseded or revoked.
    /// </summary>
    public sealed class Submission : Document
    {
        internal Submission(JsonValue json) : base(json)
        {
            Id = json["submission"].AsText();
            Board = json["board"].AsText();
            Player = json["player"].AsText();
            Score = json["score"].AsLong();
            State = json["state"].AsText();
            Reason = json["reason"].AsTextOrNull();
            Rank = json["rank"].AsLongOrNull();
            ReceivedAt = json["received_at"].AsTextOrNull();
            Verified = json["verified"].AsBoolOrNull();
            RevealBy = json["reveal_by"].AsTextOrNull();
            Message = json["message"].AsTextOrNull();
            Question = json["question"];
            Appeal = json["appeal"];
        }

        /// <summary>The submission's id.</summary>
        public string Id { get; }

        /// <summary>The board.</summary>
        public string Board { get; }

        /// <summary>The player.</summary>
        public string Player { get; }

        /// <summary>The score.</summary>
        public long Score { get; }

        /// <summary>The state.</summary>
        public string State { get; }

        /// <summary>Why, as a coarse class, or null.</summary>
        public string Reason { get; }

        /// <summary>The all-time rank while it counts, or null.</summary>
        public long? Rank { get; }

        /// <summary>When it was received.</summary>
        public string ReceivedAt { get; }

        /// <summary>False if it counts without a replay, null if it does not count.</summary>
        public bool? Verified { get; }

        /// <summary>Until when its recording is asked for, or null.</summary>
        public string RevealBy { get; }

        /// <summary>What a moderator says of the decision, or null.</summary>
        public string Message { get; }

        /// <summary>What a moderator asks: text, asked_at, answer_by; null for nothing.</summary>
        public JsonValue Question { get; }

        /// <summary>What can be done against the decision: state and until; null for nothing.</summary>
        public JsonValue Appeal { get; }
    }
}
