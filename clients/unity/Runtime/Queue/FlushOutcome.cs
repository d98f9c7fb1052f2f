namespace Scoregate
{
    /// <summary>What became of an entry of the queue in a flush.</summary>
    public sealed class FlushOutcome
    {
        /// <summary>The gateway has it.</summary>
        public const string Accepted = "accepted";

        /// <summary>The gateway refused it for good; <see cref="Problem"/> says why.</summary>
        public const string Refused = "refused";

        /// <summary>It is sent again by the next flush; <see cref="Problem"/> says why.</summary>
        public const string Kept = "kept";

        /// <summary>It waited for too long, and was dropped.</summary>
        public const string Expired = "expired";

        /// <summary>Its file could not be read, and was set aside.</summary>
        public const string Damaged = "damaged";

        internal FlushOutcome(string name, string outcome)
        {
            Name = name;
            Outcome = outcome;
        }

        /// <summary>The name of the entry's file.</summary>
        public string Name { get; }

        /// <summary>One of the words above.</summary>
        public string Outcome { get; }

        /// <summary>The entry, null for a damaged one.</summary>
        public QueueEntry Entry { get; internal set; }

        /// <summary>The receipt of an accepted one.</summary>
        public Receipt Receipt { get; internal set; }

        /// <summary>Why it was refused or kept.</summary>
        public ScoregateError Problem { get; internal set; }
    }
}
