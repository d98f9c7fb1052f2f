namespace Scoregate
{
    /// <summary>A player's rank and score on one of several boards.</summary>
    public sealed class Standing : Document
    {
        internal Standing(JsonValue json) : base(json)
        {
            Board = json["board"].AsText();
            Title = json["title"].AsText();
            Rank = json["rank"].AsLong();
            Score = json["score"].AsLong();
            Total = json["total"].AsLong();
            AchievedAt = json["achieved_at"].AsTextOrNull();
            Submission = json["submission"].AsTextOrNull();
        }

        /// <summary>The board.</summary>
        public string Board { get; }

        /// <summary>Its title.</summary>
        public string Title { get; }

        /// <summary>The rank, from 1.</summary>
        public long Rank { get; }

        /// <summary>The score.</summary>
        public long Score { get; }

        /// <summary>The number of entries.</summary>
        public long Total { get; }

        /// <summary>When it was reached (RFC 3339, UTC).</summary>
        public string AchievedAt { get; }

        /// <summary>The submission.</summary>
        public string Submission { get; }
    }
}
