namespace Scoregate
{
    /// <summary>A player's rank and score on a board.</summary>
    public sealed class Entry : Document
    {
        internal Entry(JsonValue json) : base(json)
        {
            Rank = json["rank"].AsLongOrNull();
            Player = json["player"].AsText();
            Name = json["name"].AsText();
            Score = json["score"].AsLong();
            AchievedAt = json["achieved_at"].AsTextOrNull();
            Submission = json["submission"].AsTextOrNull();
            GlobalRank = json["global_rank"].AsLongOrNull();
            Total = json["total"].AsLongOrNull();
            Percentile = json["percentile"].AsDoubleOrNull();
            Gap = json["gap"].AsLongOrNull();
        }

        /// <summary>The rank, from 1; null below the ranks that the board keeps exactly.</summary>
        public long? Rank { get; }

        /// <summary>The player.</summary>
        public string Player { get; }

        /// <summary>The name as shown.</summary>
        public string Name { get; }

        /// <summary>The score.</summary>
        public long Score { get; }

        /// <summary>When it was reached (RFC 3339, UTC).</summary>
        public string AchievedAt { get; }

        /// <summary>The submission.</summary>
        public string Submission { get; }

        /// <summary>The rank among all, if the page has some players only.</summary>
        public long? GlobalRank { get; }

        /// <summary>The number of entries, if this was read alone.</summary>
        public long? Total { get; }

        /// <summary>The percentage of entries that are not better, if this was read alone.</summary>
        public double? Percentile { get; }

        /// <summary>The difference to the next better score, if this was read alone and there is one.</summary>
        public long? Gap { get; }
    }
}
