using System;
using System.Collections.Generic;
using System.Text;

namespace Scoregate
{
    /// <summary>What a player says of a run: the score, the ticks, the stats and how it was played.</summary>
    public sealed class Claim
    {
        private readonly List<KeyValuePair<string, long>> stats = new List<KeyValuePair<string, long>>();

        /// <summary>Make a claim. A board that replays its runs needs the recording.</summary>
        public Claim(long score, long ticks, byte[] recording = null)
        {
            Score = score;
            Ticks = ticks;
            Recording = recording;
        }

        /// <summary>The score.</summary>
        public long Score { get; }

        /// <summary>The ticks played.</summary>
        public long Ticks { get; }

        /// <summary>The recording, or null.</summary>
        public byte[] Recording { get; }

        /// <summary>The stats, in the order in which they were added.</summary>
        public IReadOnlyList<KeyValuePair<string, long>> Stats => stats;

        /// <summary>Add a statistic that the board's policy names.</summary>
        /// <exception cref="ArgumentException">It was added before.</exception>
        public Claim WithStat(string name, long value)
        {
            foreach (var stat in stats)
            {
                if (stat.Key == name)
                {
                    throw new ArgumentException("the statistic is there twice: " + name);
                }
            }

            stats.Add(new KeyValuePair<string, long>(name, value));
            return this;
        }

        /// <summary>Return the body of a submission. Make it once: only the same bytes are the same submission.</summary>
        public byte[] Body() => Encoding.UTF8.GetBytes(Text());

        /// <summary>Return the body of a submission that only commits to its recording.</summary>
        /// <exception cref="ArgumentException">There is no recording.</exception>
        public byte[] CommittedBody() => Encoding.UTF8.GetBytes(CommittedText());

        internal string Text()
        {
            var claim = Beginning();
            if (Recording != null)
            {
                claim.Add("recording", Convert.ToBase64String(Recording));
            }

            return JsonWriter.Write(claim.Build());
        }

        internal string CommittedText()
        {
            if (Recording == null)
            {
                throw new ArgumentException("there is no recording to commit to");
            }

            var claim = Beginning();
            claim.Add("recording_digest", Scoregate.Recording.Digest(Recording));
            claim.Add("recording_bytes", Recording.Length);
            return JsonWriter.Write(claim.Build());
        }

        private JsonObject Beginning()
        {
            var named = new JsonObject();
            foreach (var stat in stats)
            {
                named.Add(stat.Key, stat.Value);
            }

            return new JsonObject().Add("score", Score).Add("ticks", Ticks).Add("stats", named.Build());
        }
    }
}
