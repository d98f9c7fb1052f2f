namespace Scoregate
{
    /// <summary>A recording that the player is asked to send.</summary>
    public sealed class Reveal : Document
    {
        internal Reveal(JsonValue json) : base(json)
        {
            Submission = json["submission"].AsText();
            Board = json["board"].AsText();
            RecordingDigest = json["recording_digest"].AsText();
            RecordingBytes = json["recording_bytes"].AsLong();
            RevealBy = json["reveal_by"].AsText();
        }

        /// <summary>The submission.</summary>
        public string Submission { get; }

        /// <summary>The board.</summary>
        public string Board { get; }

        /// <summary>The digest of the recording.</summary>
        public string RecordingDigest { get; }

        /// <summary>Its size.</summary>
        public long RecordingBytes { get; }

        /// <summary>Until when (RFC 3339, UTC).</summary>
        public string RevealBy { get; }
    }
}
